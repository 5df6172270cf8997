// SPDX-License-Identifier: MIT
// Functions that the runtime names, and the stand-in does not implement: images, graphics interop,
// storage. No header declares them here, because some releases lack their parameters' types; a C
// function may ignore its arguments.
#include "src/base/call.hpp"

#define ROCR_UNSUPPORTED(name)     \
  extern "C" hsa_status_t name();  \
  extern "C" hsa_status_t name() { \
    ROCR_CALL();                   \
    return HSA_STATUS_ERROR;       \
  }
#define ROCR_ACCEPTED(name)        \
  extern "C" hsa_status_t name();  \
  extern "C" hsa_status_t name() { \
    ROCR_CALL();                   \
    return HSA_STATUS_SUCCESS;     \
  }

ROCR_UNSUPPORTED(hsa_amd_ais_file_read)
ROCR_UNSUPPORTED(hsa_amd_ais_file_write)
ROCR_UNSUPPORTED(hsa_amd_image_create)
ROCR_UNSUPPORTED(hsa_amd_interop_map_buffer)
ROCR_UNSUPPORTED(hsa_amd_interop_unmap_buffer)
ROCR_UNSUPPORTED(hsa_amd_portable_close_dmabuf)
ROCR_UNSUPPORTED(hsa_amd_portable_export_dmabuf)
ROCR_UNSUPPORTED(hsa_ext_image_create)
ROCR_UNSUPPORTED(hsa_ext_image_create_with_layout)
ROCR_UNSUPPORTED(hsa_ext_image_data_get_info)
ROCR_UNSUPPORTED(hsa_ext_image_destroy)
ROCR_UNSUPPORTED(hsa_ext_image_export)
ROCR_UNSUPPORTED(hsa_ext_image_import)
ROCR_UNSUPPORTED(hsa_ext_sampler_create)
ROCR_UNSUPPORTED(hsa_ext_sampler_create_v2)
ROCR_UNSUPPORTED(hsa_ext_sampler_destroy)
ROCR_ACCEPTED(hsa_amd_agent_set_async_scratch_limit)
ROCR_ACCEPTED(hsa_amd_coherency_set_type)
ROCR_ACCEPTED(hsa_amd_enable_logging)

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm {

/// What the descriptor of an exported chunk is to the system.
enum class export_kind {
  dma_buf,      ///< other drivers import it too, such as those of network cards (ibv_reg_dmabuf_mr)
  memory_file,  ///< memory of the host: the host provider's
  driver_file,  ///< a file of the driver, which nobody else understands: NVIDIA's
  unknown,      ///< the system does not say, as without /proc
};

/// What the descriptor of `handle` is, by its name in /proc/self/fd.
/// Throws: std::invalid_argument where it is empty, or its descriptor is not open.
[[nodiscard]] export_kind kind_of(const shareable_handle& handle);

/// What chunks of `device` that are made with handle_type::posix_fd give. The first call for a
/// device in this process exports one of a granule, and releases it. Throws: std::invalid_argument
/// where there is no such device; unsupported without usable virtual memory; out_of_memory;
/// hip_error, where chunks cannot be exported. The next call tries again.
[[nodiscard]] export_kind export_kind_of(device_ref device);

/// Whether chunks of `device` can be made with handle_type::fabric, and exported: makes and exports
/// one of a granule, and releases it, for what a device reports is not all that it takes. NVIDIA's
/// driver wants an IMEX channel that the user may open. Throws: std::invalid_argument where there
/// is no such device; out_of_memory.
[[nodiscard]] bool exports_fabric(device_ref device);

}  // namespace hipvmm

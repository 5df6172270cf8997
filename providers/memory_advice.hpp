// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstring>

#include "core/hip_compat.hpp"
#include "providers/failure.hpp"

// The header has it from 7.1 on. In the HIP 10 line hipMemAdvise is an inline function that calls
// it.
extern "C" [[gnu::visibility("default")]] hipError_t hipMemAdvise_v2(const void* pointer,
                                                                     std::size_t bytes,
                                                                     hipMemoryAdvise advice,
                                                                     hipMemLocation location);

namespace hipvmm::provider {

/// The device's ordinal, or hipCpuDeviceId for any node of the host.
inline int ordinal_of(const hipMemLocation& location) {
  int type = 0;  // it need not be one of the header's enumerators
  std::memcpy(&type, &location.type, sizeof(type));
  switch (type) {
    case hipMemLocationTypeDevice:
      return location.id;
    case hip_compat::host_location:
    case hip_compat::host_node_location:
    case hip_compat::nearest_host_node_location:
      return hipCpuDeviceId;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

}  // namespace hipvmm::provider

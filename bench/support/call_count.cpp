// SPDX-License-Identifier: MIT
#include "call_count.hpp"

#ifdef HIPVMM_HOST_PROVIDER
#include <hipvmm/provider/host_control.h>
#endif

namespace bench {

std::optional<call_count> hip_calls() {
#ifdef HIPVMM_HOST_PROVIDER
  call_count result;
  result.all = hipvmm_host_call_count(nullptr);
  for (const char* function : {"hipMemcpy", "hipMemcpyAsync", "hipMemcpyHtoD", "hipMemcpyHtoDAsync",
                               "hipMemcpyDtoH", "hipMemcpyDtoHAsync", "hipMemcpyDtoD",
                               "hipMemcpyDtoDAsync", "hipMemcpyPeer", "hipMemcpyPeerAsync"})
    result.copies += hipvmm_host_call_count(function);
  return result;
#else
  return std::nullopt;
#endif
}

}  // namespace bench

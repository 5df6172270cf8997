// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <utility>

#include "call.hpp"
#include "enum_value.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

struct error_text {
  hipError_t code;
  const char* name;
  const char* text;
};

constexpr std::array texts{
    error_text{hipSuccess, "hipSuccess", "no error"},
    error_text{hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    error_text{hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    error_text{hipErrorNotInitialized, "hipErrorNotInitialized", "initialization error"},
    error_text{hipErrorDeinitialized, "hipErrorDeinitialized", "driver shutting down"},
    error_text{hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer",
               "invalid device pointer"},
    error_text{hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection",
               "invalid copy direction for memcpy"},
    error_text{hipErrorNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    error_text{hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    error_text{hipErrorInvalidContext, "hipErrorInvalidContext", "invalid device context"},
    error_text{hipErrorMapFailed, "hipErrorMapFailed", "mapping of buffer object failed"},
    error_text{hipErrorUnmapFailed, "hipErrorUnmapFailed", "unmapping of buffer object failed"},
    error_text{hipErrorAlreadyMapped, "hipErrorAlreadyMapped", "resource already mapped"},
    error_text{hipErrorNotMapped, "hipErrorNotMapped", "resource not mapped"},
    error_text{hipErrorPeerAccessUnsupported, "hipErrorPeerAccessUnsupported",
               "peer access is not supported between these two devices"},
    error_text{hipErrorOperatingSystem, "hipErrorOperatingSystem",
               "operating system call failed or is not supported"},
    error_text{hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    error_text{hipErrorIllegalState, "hipErrorIllegalState",
               "the operation cannot be performed in the present state"},
    error_text{hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    error_text{hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    error_text{hipErrorIllegalAddress, "hipErrorIllegalAddress",
               "an illegal memory access was encountered"},
    error_text{hipErrorLaunchOutOfResources, "hipErrorLaunchOutOfResources",
               "out of resources for launch"},
    error_text{hipErrorPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled",
               "peer access is already enabled"},
    error_text{hipErrorPeerAccessNotEnabled, "hipErrorPeerAccessNotEnabled",
               "peer access has not been enabled"},
    error_text{hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
               "part or all of the requested memory range is already mapped"},
    error_text{hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
               "pointer does not correspond to a registered memory region"},
    error_text{hipErrorContextIsDestroyed, "hipErrorContextIsDestroyed", "context is destroyed"},
    error_text{hipErrorLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    error_text{hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
    error_text{hipErrorUnknown, "hipErrorUnknown", "unknown error"},
};

const error_text& text_of(int code) noexcept {
  const auto* const found = std::find_if(
      texts.begin(), texts.end(), [code](const error_text& each) { return each.code == code; });
  return found == texts.end() ? texts.back() : *found;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

const char* hipGetErrorName(hipError_t code) {
  return call_infallible(__func__, [&] { return text_of(value_of(code)).name; });
}

const char* hipGetErrorString(hipError_t code) {
  return call_infallible(__func__, [&] { return text_of(value_of(code)).text; });
}

hipError_t hipGetLastError() {
  return call_infallible(__func__, [] { return std::exchange(last_error(), hipSuccess); });
}

hipError_t hipPeekAtLastError() {
  return call_infallible(__func__, [] { return last_error(); });
}

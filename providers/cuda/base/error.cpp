// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <utility>

#include "base/current.hpp"
#include "base/failure.hpp"
#include "base/translate.hpp"

namespace hipvmm::cuda_provider {
namespace {

struct error_text {
  hipError_t code;
  const char* name;
  const char* text;
};

#define HIPVMM_HIP_ERROR(code, text) error_text{code, #code, text},
constexpr std::array texts{
#include "providers/hip_errors.def"
};
#undef HIPVMM_HIP_ERROR

struct translation {
  CUresult from;
  hipError_t to;
};

// Most codes have the same number on both sides; the table lists those that HIP has. A code that is
// not here is hipErrorUnknown.
constexpr std::array translations{
    translation{CUDA_SUCCESS, hipSuccess},
    translation{CUDA_ERROR_INVALID_VALUE, hipErrorInvalidValue},
    translation{CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory},
    translation{CUDA_ERROR_NOT_INITIALIZED, hipErrorNotInitialized},
    translation{CUDA_ERROR_DEINITIALIZED, hipErrorDeinitialized},
    translation{CUDA_ERROR_STUB_LIBRARY, hipErrorNoDevice},
    translation{CUDA_ERROR_NO_DEVICE, hipErrorNoDevice},
    translation{CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice},
    translation{CUDA_ERROR_INVALID_IMAGE, hipErrorInvalidImage},
    translation{CUDA_ERROR_INVALID_CONTEXT, hipErrorInvalidContext},
    translation{CUDA_ERROR_MAP_FAILED, hipErrorMapFailed},
    translation{CUDA_ERROR_UNMAP_FAILED, hipErrorUnmapFailed},
    translation{CUDA_ERROR_ALREADY_MAPPED, hipErrorAlreadyMapped},
    translation{CUDA_ERROR_NOT_MAPPED, hipErrorNotMapped},
    translation{CUDA_ERROR_ECC_UNCORRECTABLE, hipErrorECCNotCorrectable},
    translation{CUDA_ERROR_UNSUPPORTED_LIMIT, hipErrorUnsupportedLimit},
    translation{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, hipErrorPeerAccessUnsupported},
    translation{CUDA_ERROR_OPERATING_SYSTEM, hipErrorOperatingSystem},
    translation{CUDA_ERROR_INVALID_HANDLE, hipErrorInvalidHandle},
    translation{CUDA_ERROR_ILLEGAL_STATE, hipErrorIllegalState},
    translation{CUDA_ERROR_NOT_FOUND, hipErrorNotFound},
    translation{CUDA_ERROR_NOT_READY, hipErrorNotReady},
    translation{CUDA_ERROR_ILLEGAL_ADDRESS, hipErrorIllegalAddress},
    translation{CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, hipErrorLaunchOutOfResources},
    translation{CUDA_ERROR_LAUNCH_TIMEOUT, hipErrorLaunchTimeOut},
    translation{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, hipErrorPeerAccessAlreadyEnabled},
    translation{CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, hipErrorPeerAccessNotEnabled},
    translation{CUDA_ERROR_CONTEXT_IS_DESTROYED, hipErrorContextIsDestroyed},
    translation{CUDA_ERROR_ASSERT, hipErrorAssert},
    translation{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, hipErrorHostMemoryAlreadyRegistered},
    translation{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, hipErrorHostMemoryNotRegistered},
    // The device stopped at work it was given; HIP has one code for all ways to do so.
    translation{CUDA_ERROR_LAUNCH_FAILED, hipErrorLaunchFailure},
    translation{CUDA_ERROR_HARDWARE_STACK_ERROR, hipErrorLaunchFailure},
    translation{CUDA_ERROR_ILLEGAL_INSTRUCTION, hipErrorLaunchFailure},
    translation{CUDA_ERROR_MISALIGNED_ADDRESS, hipErrorLaunchFailure},
    translation{CUDA_ERROR_INVALID_ADDRESS_SPACE, hipErrorLaunchFailure},
    translation{CUDA_ERROR_INVALID_PC, hipErrorLaunchFailure},
    translation{CUDA_ERROR_NOT_PERMITTED, hipErrorIllegalState},
    translation{CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported},
    translation{CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, hipErrorNotSupported},
    translation{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, hipErrorInsufficientDriver},
    translation{CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, hipErrorInsufficientDriver},
    translation{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, hipErrorStreamCaptureUnsupported},
    translation{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, hipErrorStreamCaptureInvalidated},
    translation{CUDA_ERROR_STREAM_CAPTURE_MERGE, hipErrorStreamCaptureMerge},
    translation{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, hipErrorStreamCaptureUnmatched},
    translation{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, hipErrorStreamCaptureUnjoined},
    translation{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, hipErrorStreamCaptureIsolation},
    translation{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, hipErrorStreamCaptureImplicit},
    translation{CUDA_ERROR_CAPTURED_EVENT, hipErrorCapturedEvent},
    translation{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, hipErrorStreamCaptureWrongThread},
};

const error_text& text_of(int code) noexcept {
  const auto* const found = std::find_if(
      texts.begin(), texts.end(), [code](const error_text& each) { return each.code == code; });
  return found == texts.end() ? texts.back() : *found;
}

}  // namespace

hipError_t error_of(CUresult result) noexcept {
  const auto* const found =
      std::find_if(translations.begin(), translations.end(),
                   [result](const translation& each) { return each.from == result; });
  return found == translations.end() ? hipErrorUnknown : found->to;
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

const char* hipGetErrorName(hipError_t code) { return text_of(value_of(code)).name; }

const char* hipGetErrorString(hipError_t code) { return text_of(value_of(code)).text; }

hipError_t hipGetLastError() { return std::exchange(last_error(), hipSuccess); }

hipError_t hipPeekAtLastError() { return last_error(); }

// SPDX-License-Identifier: MIT
#include "core/capture_mode.hpp"

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

relaxed_captures::relaxed_captures() {
  check(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
}

relaxed_captures::~relaxed_captures() {
  report(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
}

bool is_capturing(hipStream_t stream) {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  check_stream(hipStreamIsCapturing(stream, &status), "hipStreamIsCapturing", stream);
  return status != hipStreamCaptureStatusNone;
}

bool is_captured(hipStream_t stream) {
  try {
    return is_capturing(stream);
  } catch (const hip_error& error) {
    // The null stream, while a blocking stream of its device is captured.
    if (error.code() == hipErrorStreamCaptureImplicit) return true;
    throw;
  }
}

}  // namespace hipvmm::detail

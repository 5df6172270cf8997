// SPDX-License-Identifier: MIT
#include "core/capture_mode.hpp"

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

namespace {

/// Objects of this thread that live.
constinit thread_local int relaxed_now = 0;

}  // namespace

relaxed_captures::relaxed_captures() {
  if (relaxed_now == 0)
    check(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
  ++relaxed_now;
}

relaxed_captures::~relaxed_captures() {
  if (--relaxed_now == 0)
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

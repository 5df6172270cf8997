// SPDX-License-Identifier: MIT
#include "core/capture_mode.hpp"

#include "core/check.hpp"

namespace hipvmm::detail {

relaxed_captures::relaxed_captures() {
  check(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
}

relaxed_captures::~relaxed_captures() {
  report(hipThreadExchangeStreamCaptureMode(&mode_), "hipThreadExchangeStreamCaptureMode");
}

}  // namespace hipvmm::detail

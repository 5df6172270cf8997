// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

namespace hipvmm::detail {

/// While it lives, HIP calls of this thread disturb no stream capture of another thread: a capture
/// in global mode forbids others to wait, to query and to free, and is lost when they do. What is
/// captured itself must be left alone all the same.
class relaxed_captures {
 public:
  /// Throws: hip_error.
  relaxed_captures();
  ~relaxed_captures();
  relaxed_captures(const relaxed_captures&) = delete;
  relaxed_captures& operator=(const relaxed_captures&) = delete;

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;  // then the one from before
};

}  // namespace hipvmm::detail

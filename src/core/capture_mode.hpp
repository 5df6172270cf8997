// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <hipvmm/core/stream.hpp>

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

/// Whether `stream` is being captured; also true for the null stream while a capture forbids to use
/// it, which HIP does not tell otherwise. Nothing may be recorded in it then, and it can wait for
/// nothing. Throws: hip_error for all else, such as a stream that is gone.
[[nodiscard]] bool is_captured(stream_ref stream);

}  // namespace hipvmm::detail

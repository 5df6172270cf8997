// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

namespace hipvmm::detail {

/// While an object lives, HIP calls of this thread disturb no stream capture of another thread. A
/// capture in global mode forbids other threads to wait, to query and to free, and is invalidated
/// when they do. Calls must still not use captured streams. Inside another object's life of the
/// same thread it makes no HIP call; they end in the reverse order.
class relaxed_captures {
 public:
  /// Throws: hip_error.
  relaxed_captures();
  ~relaxed_captures();
  relaxed_captures& operator=(relaxed_captures&&) = delete;

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;  // then the previous mode
};

/// Returns the result of hipStreamIsCapturing.
/// Throws: hip_error.
[[nodiscard]] bool is_capturing(hipStream_t stream);

/// Returns whether `stream` is being captured.
/// - Also true for the null stream while a capture forbids its use, because HIP does not report
///   that otherwise.
/// - When true, nothing may be recorded in the stream, and it cannot wait for anything.
/// Throws: hip_error for all else, such as a destroyed stream.
[[nodiscard]] bool is_captured(hipStream_t stream);

/// How far a stream has come in a capture.
struct capture_place {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;  // if not active, the rest is empty
  unsigned long long id = 0;                                   // of the capture, in this process
  hipGraph_t graph = nullptr;                                  // valid until the capture ends
  std::vector<hipGraphNode_t> last;  // the nodes that the stream's next one depends on, sorted
};

/// Returns the place of `stream`; no capture's for the null stream.
/// Throws: hip_error for all else, such as a destroyed stream.
[[nodiscard]] capture_place place_in_capture(hipStream_t stream);

/// Returns all nodes that come before the next node at `place`, sorted.
/// Throws: hip_error, also where HIP has no list of the edges.
[[nodiscard]] std::vector<hipGraphNode_t> nodes_before(const capture_place& place);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

namespace hipvmm::detail {

/// While one lives, HIP calls of this thread disturb no stream capture of another thread: a capture
/// in global mode forbids other threads to wait, query and free, and is invalidated if they do.
/// Captured streams must still not be used. Nested ones end in reverse order, without HIP calls.
class relaxed_captures {
 public:
  relaxed_captures();
  ~relaxed_captures();
  relaxed_captures& operator=(relaxed_captures&&) = delete;

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;  // then the previous mode
};

/// hipStreamIsCapturing. Throws: hip_error.
[[nodiscard]] bool is_capturing(hipStream_t stream);

/// If true, nothing may be recorded in `stream`, and it cannot wait for anything. Also true for the
/// null stream while a capture forbids its use, because HIP does not report that otherwise.
/// Throws: hip_error for all else, such as a destroyed stream.
[[nodiscard]] bool is_captured(hipStream_t stream);

struct capture_place {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;  // if not active, the rest is empty
  unsigned long long id = 0;                                   // of the capture, in this process
  hipGraph_t graph = nullptr;                                  // valid until the capture ends
  std::vector<hipGraphNode_t> last;  // the nodes that the stream's next one depends on, sorted
};

/// None for the null stream. Throws: hip_error for all else, such as a destroyed stream.
[[nodiscard]] capture_place place_in_capture(hipStream_t stream);

/// All nodes before the next one at `place`, sorted. Throws: hip_error, also if HIP lists no edges.
[[nodiscard]] std::vector<hipGraphNode_t> nodes_before(const capture_place& place);

}  // namespace hipvmm::detail

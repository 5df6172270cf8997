// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <vector>

namespace hipvmm::detail {

/// While one lives, waits, queries and frees of this thread invalidate no capture of another
/// thread. Captured streams stay forbidden. Nested ones end in reverse order.
class relaxed_captures {
 public:
  relaxed_captures();
  ~relaxed_captures();
  relaxed_captures& operator=(relaxed_captures&&) = delete;

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;  // after construction the previous mode
};

/// Throws: hip_error.
[[nodiscard]] bool is_capturing(hipStream_t stream);

/// If true, nothing may be recorded in `stream`, and it cannot wait. Also true for the null stream
/// while a capture forbids its use, which HIP reports as an error. Throws: hip_error for all else.
[[nodiscard]] bool is_captured(hipStream_t stream);

struct capture_place {
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;  // if not active, the rest is empty
  unsigned long long id = 0;                                   // of the capture, in this process
  hipGraph_t graph = nullptr;                                  // valid until the capture ends
  std::vector<hipGraphNode_t> last;  // the nodes that the stream's next one depends on, sorted
};

/// Empty if a capture forbids the null stream. Throws: hip_error, as for a destroyed stream.
[[nodiscard]] capture_place place_in_capture(hipStream_t stream);

/// All nodes before the next one at `place`, sorted. Throws: hip_error, also if HIP lists no edges.
[[nodiscard]] std::vector<hipGraphNode_t> nodes_before(const capture_place& place);

}  // namespace hipvmm::detail

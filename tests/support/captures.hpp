// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

namespace hipvmm::test {

/// Ends a capture and drops its graph. Returns whether it had not been lost.
[[nodiscard]] inline bool end_capture_if_kept(hipStream_t captured) {
  hipGraph_t graph = nullptr;
  const bool kept = hipStreamEndCapture(captured, &graph) == hipSuccess;
  if (graph != nullptr) CHECK(hipGraphDestroy(graph) == hipSuccess);
  static_cast<void>(hipGetLastError());
  return kept;
}

/// Ends a capture that nothing may have cost, and drops its graph.
inline void end_capture(hipStream_t captured) {
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(captured, &graph) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

}  // namespace hipvmm::test

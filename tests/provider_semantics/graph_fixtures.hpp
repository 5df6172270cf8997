// SPDX-License-Identifier: MIT
#pragma once

#include "fixtures.hpp"

namespace hipvmm::test {

inline void begin_capture(hipStream_t stream,
                          hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
  REQUIRE(hipStreamBeginCapture(stream, mode) == hipSuccess);
}

/// The code that the end of a capture gives; a graph that came of it is destroyed.
inline hipError_t end_capture(hipStream_t stream) {
  hipGraph_t graph = nullptr;
  const hipError_t code = hipStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (code == hipSuccess));
  if (graph != nullptr) CHECK(hipGraphDestroy(graph) == hipSuccess);
  return code;
}

/// The graph of the capture that ends in `stream`, and one executable graph of it if it is wanted.
class recorded {
 public:
  explicit recorded(hipStream_t stream) {
    REQUIRE(hipStreamEndCapture(stream, &graph_) == hipSuccess);
  }
  ~recorded() {
    if (exec_ != nullptr) CHECK(hipGraphExecDestroy(exec_) == hipSuccess);
    CHECK(hipGraphDestroy(graph_) == hipSuccess);
  }
  recorded& operator=(recorded&&) = delete;

  [[nodiscard]] hipGraph_t get() const { return graph_; }
  void instantiate(unsigned long long flags = 0) {
    REQUIRE(hipGraphInstantiateWithFlags(&exec_, graph_, flags) == hipSuccess);
  }
  [[nodiscard]] hipGraphExec_t exec() const { return exec_; }

 private:
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
};

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <thread>
#include <utility>
#include <vector>

#include "providers/host/tests/fixtures.hpp"

namespace hipvmm::test {

class recorded_graph {
 public:
  explicit recorded_graph(hipGraph_t graph) : graph_{graph} { REQUIRE(graph != nullptr); }
  recorded_graph& operator=(recorded_graph&&) = delete;
  ~recorded_graph() { destroy(); }

  [[nodiscard]] hipGraph_t get() const { return graph_; }
  void destroy() {
    if (graph_ != nullptr) CHECK(hipGraphDestroy(graph_) == hipSuccess);
    graph_ = nullptr;
  }
  [[nodiscard]] std::vector<hipGraphNode_t> nodes() const {
    std::size_t count = 0;
    REQUIRE(hipGraphGetNodes(graph_, nullptr, &count) == hipSuccess);
    std::vector<hipGraphNode_t> all(count);
    REQUIRE(hipGraphGetNodes(graph_, all.data(), &count) == hipSuccess);
    return all;
  }
  [[nodiscard]] std::vector<std::pair<int, int>> edges() const {
    std::size_t count = 0;
    REQUIRE(hipGraphGetEdges(graph_, nullptr, nullptr, &count) == hipSuccess);
    std::vector<hipGraphNode_t> from(count);
    std::vector<hipGraphNode_t> to(count);
    REQUIRE(hipGraphGetEdges(graph_, from.data(), to.data(), &count) == hipSuccess);
    const std::vector<hipGraphNode_t> all = nodes();
    const auto number = [&all](hipGraphNode_t node) {
      return static_cast<int>(std::find(all.begin(), all.end(), node) - all.begin());
    };
    std::vector<std::pair<int, int>> found;
    for (std::size_t i = 0; i < count; ++i) found.emplace_back(number(from[i]), number(to[i]));
    return found;
  }

 private:
  hipGraph_t graph_ = nullptr;
};

class instance {
 public:
  explicit instance(hipGraph_t graph, unsigned long long flags = 0) {
    REQUIRE(hipGraphInstantiateWithFlags(&exec_, graph, flags) == hipSuccess);
  }
  instance& operator=(instance&&) = delete;
  ~instance() { destroy(); }

  [[nodiscard]] hipGraphExec_t get() const { return exec_; }
  void destroy() {
    if (exec_ != nullptr) CHECK(hipGraphExecDestroy(exec_) == hipSuccess);
    exec_ = nullptr;
  }
  [[nodiscard]] hipError_t launch(hipStream_t stream) const {
    return hipGraphLaunch(exec_, stream);
  }

 private:
  hipGraphExec_t exec_ = nullptr;
};

inline void begin_capture(hipStream_t stream,
                          hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
  REQUIRE(hipStreamBeginCapture(stream, mode) == hipSuccess);
}

inline hipGraph_t end_capture(hipStream_t stream) {
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(stream, &graph) == hipSuccess);
  return graph;
}

/// Ends a capture that must fail, and checks that it makes no graph.
inline void end_capture_with(hipError_t expected, hipStream_t stream) {
  hipGraph_t graph = as_handle<hipGraph_t>(1);
  CHECK(hipStreamEndCapture(stream, &graph) == expected);
  CHECK(graph == nullptr);
}

inline hipStreamCaptureStatus status_of(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  REQUIRE(hipStreamIsCapturing(stream, &status) == hipSuccess);
  return status;
}

/// Sets the calling thread's mode until its end.
class thread_mode {
 public:
  explicit thread_mode(hipStreamCaptureMode mode) : mode_{mode} {
    REQUIRE(hipThreadExchangeStreamCaptureMode(&mode_) == hipSuccess);
  }
  thread_mode& operator=(thread_mode&&) = delete;
  ~thread_mode() { CHECK(hipThreadExchangeStreamCaptureMode(&mode_) == hipSuccess); }

 private:
  hipStreamCaptureMode mode_;
};

template <class Call>
hipError_t in_another_thread(Call&& call) {
  hipError_t result = hipErrorUnknown;
  std::thread{[&] { result = call(); }}.join();
  return result;
}

inline void do_nothing(void*) {}

inline void add_node(hipStream_t stream) {
  REQUIRE(hipLaunchHostFunc(stream, do_nothing, nullptr) == hipSuccess);
}

inline void fork_to(hipStream_t to, hipStream_t from, hipEvent_t by) {
  REQUIRE(hipEventRecord(by, from) == hipSuccess);
  REQUIRE(hipStreamWaitEvent(to, by, 0) == hipSuccess);
}

/// Gives a worker that should stand still every chance to run.
inline void let_workers_run() {
  for (int i = 0; i < 200; ++i) std::thread{[] {}}.join();
}

}  // namespace hipvmm::test

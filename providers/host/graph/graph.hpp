// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/handle_table.hpp"
#include "graph/graph_memory.hpp"
#include "stream/operation.hpp"
#include "stream/stream_owner.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

/// The work of an executable graph, in the order of recording: nodes were recorded after those that
/// they depend on.
struct graph_program {
  std::vector<graph_form> steps;
};

struct graph_node {
  graph_form form;
  std::vector<const graph_node*> after;
  hipGraphNode_t handle;
};

class graph;
class graph_exec;

class graph_set {
 public:
  handle_table<graph> graphs{handle_kind::graph};
  handle_table<graph_exec> execs{handle_kind::graph_exec};
  handle_table<const graph_node> nodes{handle_kind::graph_node};

  graph_memory_count memory;
};

/// Launches run one after another, even in different streams.
struct launch_order {
  std::mutex mutex;
  std::optional<position> last;
  stream_observer::point finished;  // by then, with the order checker
};

/// Thread-safe. Changes only while a capture records it.
class graph {
 public:
  enum class state { recording, complete };

  graph(graph_set& owner, state now) noexcept : owner_{owner}, state_{now} {}
  graph& operator=(graph&&) = delete;
  ~graph();

  const graph_node& add(graph_form form, std::vector<const graph_node*> after);
  /// Ends the recording. Memory allocated in it may be used again after a launch allocates it.
  void complete();
  [[nodiscard]] bool is_recording() const;

  [[nodiscard]] std::vector<const graph_node*> nodes() const;
  [[nodiscard]] bool leads_to(const std::vector<const graph_node*>& last) const;
  [[nodiscard]] bool frees(const graph_memory& memory) const;

  /// Throws: failure with hipErrorInvalidValue while it is recorded, with hipErrorNotSupported when
  /// it allocates or frees memory and has an executable graph already: both would use the same
  /// addresses.
  std::shared_ptr<graph_exec> instantiate(unsigned long long flags);

 private:
  graph_set& owner_;
  mutable std::mutex mutex_;
  state state_;
  std::vector<std::shared_ptr<graph_node>> nodes_;
  std::weak_ptr<graph_exec> instance_;
  // Of a graph with memory: outlasts an instance that was destroyed while it ran.
  const std::shared_ptr<launch_order> order_ = std::make_shared<launch_order>();
};

/// Thread-safe.
class graph_exec {
 public:
  graph_exec(graph_program program, unsigned long long flags, std::shared_ptr<launch_order> order);

  /// Submits the work after everything in the stream and all launches so far. Throws: failure with
  /// hipErrorInvalidValue when memory it allocates is still held, or memory it frees is not; with
  /// hipErrorOutOfMemory when the device lacks memory for it.
  hipError_t launch(stream_owner& owner, stream_queue& queue);

 private:
  const std::shared_ptr<const graph_program> program_;
  const bool frees_on_launch_;
  const std::shared_ptr<launch_order> order_;
};

}  // namespace hipvmm::host_provider

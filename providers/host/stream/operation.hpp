// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "memory/address.hpp"
#include "stream/stream_observer.hpp"

namespace hipvmm::host_provider {

class operation;
class stream_queue;

/// The effect of an operation on bytes, the weakest first. A prefetch moves pages and leaves the
/// bytes alone, so it races with nothing; but the memory must be there.
enum class memory_use { prefetch, read, write };

/// Hears which memory an operation uses.
class use_visitor {
 public:
  virtual void see(address start, std::size_t bytes, memory_use how, int device) = 0;

 protected:
  ~use_visitor() = default;
};

/// How the order checker takes an operation.
enum class operation_role {
  work,           ///< may use memory
  order,          ///< makes streams wait, and uses no memory
  host_function,  ///< the host learns that its predecessors finished
};

/// The work of a graph in place of an operation, at each launch.
struct graph_form {
  std::shared_ptr<const operation> work;
  int node_type;  ///< a hipGraphNodeType
};

/// One piece of work of a stream. Made once, run once; recorded in a graph, run at each launch.
class operation {
 public:
  operation() = default;
  operation(const operation&) = default;
  operation(operation&&) = default;
  operation& operator=(const operation&) = delete;
  operation& operator=(operation&&) = delete;
  virtual ~operation() = default;

  /// Runs it as work of that stream. Gives the error that the stream is to report.
  virtual hipError_t execute(stream_queue& in) const = 0;
  /// Empty if graphs cannot do it.
  [[nodiscard]] virtual std::optional<graph_form> recorded() const { return std::nullopt; }

  [[nodiscard]] virtual operation_role role() const noexcept { return operation_role::work; }
  /// Names the memory it uses, but for pageable memory: that is the program's own, and is read or
  /// written before the call returns.
  virtual void visit_uses(use_visitor& /*visitor*/) const {}
  /// The predecessors of a host function, as the order checker knows them.
  virtual void set_before(const stream_observer::point& /*known*/) noexcept {}
};

}  // namespace hipvmm::host_provider

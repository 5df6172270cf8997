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

/// The effect of an operation on bytes, the weakest first. A prefetch races with nothing, because
/// it moves pages and leaves the bytes alone; but the memory must exist.
enum class memory_use { prefetch, read, write };

class use_visitor {
 public:
  virtual void see(address start, std::size_t bytes, memory_use how, int device) = 0;

 protected:
  ~use_visitor() = default;
};

enum class operation_role {
  work,           ///< may use memory
  order,          ///< makes streams wait, and uses no memory
  host_function,  ///< the host learns that its predecessors finished
};

struct graph_form {
  std::shared_ptr<const operation> work;
  int node_type;  ///< a hipGraphNodeType
};

/// Work of a stream. Made and run once, or recorded in a graph and run at each launch.
class operation {
 public:
  operation() = default;
  operation(const operation&) = default;
  operation(operation&&) = default;
  operation& operator=(const operation&) = delete;
  operation& operator=(operation&&) = delete;
  virtual ~operation() = default;

  /// Returns the error that the stream is to report.
  virtual hipError_t execute(stream_queue& in) const = 0;
  /// Empty if graphs cannot do it.
  [[nodiscard]] virtual std::optional<graph_form> recorded() const { return std::nullopt; }

  [[nodiscard]] virtual operation_role role() const noexcept { return operation_role::work; }
  /// Visits the memory that it uses, without pageable memory, which is the program's own and is
  /// read or written before the call returns.
  virtual void visit_uses(use_visitor& /*visitor*/) const {}
  virtual void set_before(const stream_observer::point& /*known*/) noexcept {}
};

}  // namespace hipvmm::host_provider

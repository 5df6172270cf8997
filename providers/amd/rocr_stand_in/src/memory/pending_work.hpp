// SPDX-License-Identifier: MIT
// Work that was queued and has not finished, to be asked before memory is taken from it.
#pragma once

#include <cstdint>
#include <functional>

#include "src/memory/operation.hpp"

namespace stand_in {

/// A queue or a copy engine. It is asked from list() at the end of its constructor to unlist() at
/// the start of its destructor.
class work_source {
 public:
  using visitor = std::function<void(const operation&, const byte_range&)>;
  work_source() = default;
  work_source(const work_source&) = delete;
  work_source& operator=(const work_source&) = delete;

  /// Calls `visit` with the ranges of all unfinished work. Nothing finishes meanwhile.
  virtual void visit_unfinished(const visitor& visit) = 0;

 protected:
  ~work_source() = default;
  void list();
  void unlist();
};

/// Reports unfinished work on bytes of a range that is about to end. `how` is the verb, such as
/// "unmap", and `what` the noun. Pre: the lock of the address space is held, so that nothing else
/// ends meanwhile.
void check_unused(const char* how, const char* what, std::uint64_t address, std::uint64_t bytes);

}  // namespace stand_in

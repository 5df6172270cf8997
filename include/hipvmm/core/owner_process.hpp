// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hipvmm::detail {

/// Number of this process: one more in a child of fork() than in its parent.
extern std::atomic<unsigned> process_number;

/// Throws: unsupported. A child of fork() used an object of its parent.
[[noreturn]] void refuse_in_child();

/// Part of an object: the process that made it. In a child of fork() HIP does not know the object's
/// resources, no thread of the library runs, and a lock may be held for ever: the object's
/// resources must stay as they are. It moves with the resources. Cost: two loads.
class owner_process {
 public:
  [[nodiscard]] bool is_of_parent() const noexcept {
    return process_number.load(std::memory_order_relaxed) != made_in_;
  }
  /// Throws: unsupported in a child of the process that made the object.
  void require_own() const {
    if (is_of_parent()) refuse_in_child();
  }

 private:
  unsigned made_in_ = process_number.load(std::memory_order_relaxed);
};

}  // namespace hipvmm::detail

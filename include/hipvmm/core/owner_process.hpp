// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>

namespace hipvmm::detail {

extern std::atomic<unsigned> process_number;

/// Throws: unsupported.
[[noreturn]] void refuse_in_child();

/// The process that made an object. In a child of fork() the object's resources must stay as they
/// are: HIP does not know them, no thread of the library runs, and a lock may be held for ever.
class owner_process {
 public:
  [[nodiscard]] bool is_of_parent() const noexcept {
    return process_number.load(std::memory_order_relaxed) != made_in_;
  }
  void require_own() const {
    if (is_of_parent()) refuse_in_child();
  }

 private:
  unsigned made_in_ = process_number.load(std::memory_order_relaxed);
};

}  // namespace hipvmm::detail

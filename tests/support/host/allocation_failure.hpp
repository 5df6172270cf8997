// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hipvmm::test {

/// Makes the nth allocation of the calling thread fail, in the provider too, for as long as it
/// lives. One at a time in a thread.
class allocation_failure {
 public:
  explicit allocation_failure(std::uint64_t nth) noexcept;
  allocation_failure& operator=(allocation_failure&&) = delete;
  ~allocation_failure();

  /// Whether there were that many.
  [[nodiscard]] bool struck() const noexcept;
};

}  // namespace hipvmm::test

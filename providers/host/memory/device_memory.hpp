// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <mutex>

#include "base/descriptor.hpp"

namespace hipvmm::host_provider {

/// Rounds up to pages of the operating system. Throws: failure with hipErrorOutOfMemory when that
/// overflows.
std::size_t whole_pages(std::size_t bytes);

/// The physical memory of one device: a budget, and one sparse file whose untouched bytes cost
/// nothing and whose offsets are never used twice. Thread-safe.
class device_memory {
 public:
  explicit device_memory(std::size_t budget, int place = 0) noexcept
      : budget_{budget}, place_{place} {}

  /// The place of the device in the machine; 0 for memory of the host.
  [[nodiscard]] int place() const noexcept { return place_; }

  /// Throws: failure with hipErrorOutOfMemory beyond the budget.
  void charge(std::size_t bytes);
  /// False beyond the budget.
  bool try_charge(std::size_t bytes);
  void release(std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t budget() const noexcept { return budget_; }
  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t peak() const;
  void reset_peak();

  /// The sparse file, opened on first use.
  int file();
  off_t claim(std::size_t bytes);
  void discard(off_t offset, std::size_t bytes) noexcept;

 private:
  const std::size_t budget_;
  const int place_;
  mutable std::mutex mutex_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  off_t next_ = 0;
  descriptor file_;
};

}  // namespace hipvmm::host_provider

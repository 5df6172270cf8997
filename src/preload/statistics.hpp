// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hipvmm::preload {

enum class passed : std::uint8_t {
  argument,  ///< null or zero bytes
  too_small,
  too_large,
  captured,
  out_of_memory,
  over_budget,    ///< HIP's memory would not count in the budget: HIP refuses it
  failed,         ///< the pool or HIP failed otherwise
  in_child,       ///< of fork()
  own_context,    ///< the program has contexts of its own
  own_pool,       ///< the program has set a pool of its own for the device
  foreign,        ///< a free of memory that was not allocated here
  no_allocation,  ///< a free within the pool, but of no allocation's start: HIP refuses it
};
inline constexpr std::size_t passed_count = static_cast<std::size_t>(passed::no_allocation) + 1;

/// Thread-safe.
class statistics {
 public:
  void count_allocation(std::size_t bytes, bool in_stream_order) noexcept;
  void count_free(std::size_t bytes, bool in_stream_order) noexcept;
  void count_passed(passed why) noexcept { add(passed_[static_cast<std::size_t>(why)], 1); }
  void count_refused_handle() noexcept { add(refused_handles_, 1); }

  [[nodiscard]] std::uint64_t allocations() const noexcept {
    return allocations_[0].load(std::memory_order_relaxed) +
           allocations_[1].load(std::memory_order_relaxed);
  }

  struct pool_line {
    int device;
    std::size_t held;
    std::size_t most_held;
    std::size_t used;
    std::size_t most_used;
  };
  [[nodiscard]] std::string text(const std::vector<pool_line>& pools) const;
  [[nodiscard]] std::string json(const std::vector<pool_line>& pools) const;

 private:
  using counter = std::atomic<std::uint64_t>;
  static void add(counter& to, std::uint64_t count) noexcept {
    to.fetch_add(count, std::memory_order_relaxed);
  }

  std::array<counter, 2> allocations_{};  // hipMalloc, hipMallocAsync
  std::array<counter, 2> frees_{};
  counter allocated_bytes_{0};
  counter now_{0};
  counter most_{0};
  std::array<counter, passed_count> passed_{};
  counter refused_handles_{0};
};

/// Writes to a file (%p is the process ID) or "stderr". A failure is one line on standard error.
void write_to(const std::string& place, const std::string& text) noexcept;

}  // namespace hipvmm::preload

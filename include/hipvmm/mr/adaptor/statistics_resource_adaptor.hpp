// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

enum class latency_timing { off, on };

/// Counts bytes and allocations: current, peak and total, on nested levels. Thread-safe.
/// - Only the innermost level counts. Memory allocated before a level began and deallocated within
///   it makes that level's value negative.
/// - It never counts more than the upstream has allocated.
/// - Sizes passed to deallocate() are not checked. If more is deallocated than is allocated, the
///   error handler gets a report, and the excess is not counted.
/// Cost: a lock around a few additions; with latency_timing::on two readings of the clock too.
class statistics_resource_adaptor final : public resource_adaptor {
 public:
  /// Without initialisers, because with them Clang refuses pairs of it within this class.
  struct counter {
    std::int64_t value;  ///< allocated minus deallocated
    std::int64_t peak;
    std::int64_t total;  ///< sum of all allocations
  };
  /// Bytes first, then allocations.
  using counters = std::pair<counter, counter>;

  /// Requests of one power of two: element i is of 2^i to 2^(i+1) - 1 bytes. Not by levels.
  struct size_class {
    std::uint64_t allocations;  ///< all that were served
    std::uint64_t bytes;        ///< allocated now
    std::uint64_t peak_bytes;
  };
  static constexpr std::size_t power_count = 64;
  /// Numbers of calls by duration: element i is of 2^i to 2^(i+1) - 1 ns; the first also of none.
  using latencies = std::array<std::uint64_t, power_count>;

  explicit statistics_resource_adaptor(memory_resource* upstream,
                                       latency_timing timing = latency_timing::off);

  [[nodiscard]] counter get_bytes_counter() const noexcept { return innermost().first; }
  [[nodiscard]] counter get_allocations_counter() const noexcept { return innermost().second; }

  [[nodiscard]] std::array<size_class, power_count> get_size_classes() const noexcept {
    return locked(sizes_);
  }
  /// Of the upstream's successful allocations, and deallocations; zero with latency_timing::off.
  [[nodiscard]] latencies get_allocate_latencies() const noexcept {
    return locked(allocate_latencies_);
  }
  [[nodiscard]] latencies get_deallocate_latencies() const noexcept {
    return locked(deallocate_latencies_);
  }

  /// Begins a level with zero counters, and returns the counters of the enclosing level.
  counters push_counters();
  /// Ends the innermost level and returns its counters. The enclosing level's values and totals
  /// grow by them; its peaks become those it would have recorded itself.
  /// Throws: std::out_of_range when no level was begun.
  counters pop_counters();

 private:
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  [[nodiscard]] counters innermost() const noexcept;
  template <typename Member>
  [[nodiscard]] Member locked(const Member& member) const noexcept {
    const std::lock_guard held{lock_};
    return member;
  }
  [[nodiscard]] std::int64_t time_ns() const noexcept;
  void note_latency(latencies& to, std::int64_t began) noexcept;
  void goes(std::size_t bytes) noexcept;

  mutable std::mutex lock_;
  std::vector<counters> levels_;
  std::array<size_class, power_count> sizes_{};
  latencies allocate_latencies_{};
  latencies deallocate_latencies_{};
  const latency_timing timing_;
};

}  // namespace hipvmm::mr

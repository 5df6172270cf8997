// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Counts what goes through it: bytes and allocations, now, at most and in all, on levels that
/// nest. Only the innermost level counts, so memory that is older than a level and comes back
/// within it makes that level's value negative. Never counts more than the upstream has given.
/// Sizes are believed: only where more comes back than is out the error handler hears of it, and
/// what is too much is not counted. Any number of threads may use it.
class statistics_resource_adaptor final : public resource_adaptor {
 public:
  /// A number in time: bytes, or allocations. Without initialisers, with which Clang refuses pairs
  /// of it within this class.
  struct counter {
    std::int64_t value;  ///< what came minus what went
    std::int64_t peak;   ///< most that `value` was
    std::int64_t total;  ///< all that came
  };
  /// Bytes first, then allocations.
  using counters = std::pair<counter, counter>;

  /// Throws: std::invalid_argument when `upstream` is nullptr.
  explicit statistics_resource_adaptor(memory_resource* upstream);

  /// Those of the innermost level.
  [[nodiscard]] counter get_bytes_counter() const noexcept;
  [[nodiscard]] counter get_allocations_counter() const noexcept;

  /// Begins a level whose counters are zero, and returns those of the one around it.
  counters push_counters();
  /// Ends the innermost level and returns its counters. The level around it takes them over: its
  /// values and totals grow by them, its peaks become what they would be had it counted itself.
  /// Throws: std::out_of_range when no level was begun.
  counters pop_counters();

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  void came(std::size_t bytes) noexcept;
  void goes(std::size_t bytes) noexcept;

  mutable std::mutex lock_;
  std::vector<counters> levels_;
};

}  // namespace hipvmm::mr

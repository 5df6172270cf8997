// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Counts bytes and allocations that pass through it: current, peak and total, on nested levels.
/// - Only the innermost level counts. Memory allocated before a level began and deallocated within
///   it makes that level's value negative.
/// - It never counts more than the upstream has allocated.
/// - Sizes passed to deallocate() are not checked. Only a deallocation of more than is allocated is
///   reported to the error handler; the excess is not counted.
/// - Any number of threads may use it.
class statistics_resource_adaptor final : public resource_adaptor {
 public:
  /// A counter of bytes or of allocations. It has no initialisers, because with them Clang refuses
  /// pairs of it within this class.
  struct counter {
    std::int64_t value;  ///< allocated minus deallocated
    std::int64_t peak;   ///< highest `value`
    std::int64_t total;  ///< all that was allocated
  };
  /// Bytes first, then allocations.
  using counters = std::pair<counter, counter>;

  /// Throws: std::invalid_argument when `upstream` is nullptr.
  explicit statistics_resource_adaptor(memory_resource* upstream);

  /// The counters of the innermost level.
  [[nodiscard]] counter get_bytes_counter() const noexcept;
  [[nodiscard]] counter get_allocations_counter() const noexcept;

  /// Begins a level with zero counters, and returns the counters of the enclosing level.
  counters push_counters();
  /// Ends the innermost level and returns its counters. They are added to the enclosing level: its
  /// values and totals grow by them; its peaks become those it would have recorded itself.
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

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include <hipvmm/mr/fixed_size_resource.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Sends each request to the resource of its size: to the smallest bin that holds it, or to the
/// upstream when none does. Alignments above 256 bytes go to the upstream as well, for a bin of
/// blocks keeps none. Deallocation finds the resource by bytes and alignment, so that they must be
/// those of the allocation, as with all resources. Any number of threads may use it.
class binning_resource final : public resource_adaptor {
 public:
  /// Without bins: all goes to the upstream. Throws: std::invalid_argument for no upstream.
  explicit binning_resource(memory_resource* upstream);
  /// With bins of fixed_size_resource for 2^`min_size_exponent` up to 2^`max_size_exponent` bytes,
  /// which take their first blocks from the upstream now. Throws: std::invalid_argument for no
  /// upstream or exponents that are not 0 <= min <= max <= 40; out_of_memory.
  binning_resource(memory_resource* upstream, std::int8_t min_size_exponent,
                   std::int8_t max_size_exponent);
  ~binning_resource() override;

  /// Adds a bin for requests of up to `allocation_size` bytes, rounded up to 256, that fit in no
  /// smaller one. It is `bin_resource`, which outlives this, or else a new fixed_size_resource.
  /// Nothing changes where there is such a bin. Throws: std::invalid_argument for no bytes, more
  /// than 1 TiB or a resource of another device; std::logic_error while memory is handed out, which
  /// would go back to the wrong resource; out_of_memory.
  void add_bin(std::size_t allocation_size, memory_resource* bin_resource = nullptr);

 private:
  /// Asks the resource of that size by `allocate`, and counts what it gives.
  template <typename Allocate>
  void* take(std::size_t bytes, std::size_t alignment, Allocate allocate);
  /// Of what is handed out.
  [[nodiscard]] memory_resource& owner_of(std::size_t bytes, std::size_t alignment) const;
  /// Pre: the lock is held.
  [[nodiscard]] memory_resource& resource_for(std::size_t bytes, std::size_t alignment) const;

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  // Alone only to add a bin; no resource is called meanwhile.
  mutable std::shared_mutex mutex_;
  std::map<std::size_t, memory_resource*> bins_;  // by largest request
  std::vector<std::unique_ptr<fixed_size_resource>> owned_;
  std::atomic<std::size_t> handed_out_{0};
};

}  // namespace hipvmm::mr

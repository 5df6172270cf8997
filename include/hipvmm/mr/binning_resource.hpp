// SPDX-License-Identifier: MIT
#pragma once

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
/// blocks keeps none. Memory goes back to the resource that it came from, whatever bins were added
/// since; what is not handed out, as it came back before, goes nowhere and is told to the error
/// handler. Any number of threads may use it.
/// Cost: a step in a table by address each way, in parts that have locks of their own.
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
  /// than 1 TiB or a resource of another device; out_of_memory.
  void add_bin(std::size_t allocation_size, memory_resource* bin_resource = nullptr);

 private:
  struct owner_table;

  [[nodiscard]] memory_resource& resource_for(std::size_t bytes, std::size_t alignment) const;
  /// What `allocate` gets from the resource of that size, noted as its own.
  template <typename Allocate, typename GiveBack>
  void* hand_out(std::size_t bytes, std::size_t alignment, Allocate allocate, GiveBack give_back);
  /// Whose `pointer` is, which is handed out no more; nullptr, told, where it was not.
  memory_resource* take_back(const void* pointer, std::size_t bytes) noexcept;

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
  std::unique_ptr<owner_table> owners_;
};

}  // namespace hipvmm::mr

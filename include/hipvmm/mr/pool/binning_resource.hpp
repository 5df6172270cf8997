// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/pool/fixed_size_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Forwards each request to the smallest bin that holds it, or to the upstream if no bin does or
/// the alignment is above 256 bytes. Any number of threads may use it.
/// - Memory is deallocated to the resource that allocated it, also if bins were added in between.
/// - A deallocation of a pointer that is not allocated now is only reported to the error handler.
/// Cost: one table lookup by address for each call.
class binning_resource final : public resource_adaptor {
 public:
  explicit binning_resource(memory_resource* upstream);
  /// Creates bins of fixed_size_resource for 2^`min_size_exponent` up to 2^`max_size_exponent`
  /// bytes. Each bin allocates its first blocks from the upstream now.
  /// Throws: std::invalid_argument unless 0 <= min <= max <= 40; out_of_memory.
  binning_resource(memory_resource* upstream, std::int8_t min_size_exponent,
                   std::int8_t max_size_exponent);
  ~binning_resource() override;

  /// Adds a bin for requests of up to `allocation_size` bytes, rounded up to 256; does nothing if
  /// there is one of that size. The bin is `bin_resource`, which must outlive this, or by default a
  /// new fixed_size_resource.
  /// Throws: std::invalid_argument for no bytes, more than 1 TiB or a resource of another device;
  /// out_of_memory.
  void add_bin(std::size_t allocation_size, memory_resource* bin_resource = nullptr);
  /// As fixed_size_resource::forget_stream(), in the bins that this created.
  void forget_stream(stream_ref stream);

 private:
  struct owner_table;

  [[nodiscard]] memory_resource& resource_for(std::size_t bytes, std::size_t alignment) const;

  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override;

  // Locked exclusively only to add a bin. No memory is allocated or deallocated under it.
  mutable std::shared_mutex mutex_;
  std::map<std::size_t, memory_resource*> bins_;  // key: largest request
  std::optional<device_ref> device_;  // of the upstream or, if it has none, of the first bin
  std::vector<std::unique_ptr<fixed_size_resource>> owned_;
  std::unique_ptr<owner_table> owners_;
};

}  // namespace hipvmm::mr

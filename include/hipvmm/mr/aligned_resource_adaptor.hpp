// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Gives addresses that are multiples of more than what its upstream aligns to, by asking for more
/// and giving an address within: RMM's aligned_resource_adaptor, for requests that tell their own
/// alignment too. Requests for no more than default_alignment go to the upstream as they are.
/// Memory of such a request is whole multiples of its alignment long. What comes back with another
/// size or from elsewhere is told to the error handler. Any number of threads may use it.
/// Cost: alignment - 256 bytes and the rounding for each block, and a step in a table under a lock.
/// A vmm_pool_resource aligns without that: ask it for the alignment.
class aligned_resource_adaptor final : public resource_adaptor {
 public:
  /// Requests of `alignment_threshold` bytes or more get at least `alignment`.
  /// Throws: std::invalid_argument when `upstream` is nullptr or `alignment` no power of two.
  explicit aligned_resource_adaptor(memory_resource* upstream,
                                    std::size_t alignment = default_alignment,
                                    std::size_t alignment_threshold = 0);

 private:
  /// What the upstream gave, and gets back.
  struct block {
    void* pointer;
    std::size_t bytes;
    std::size_t alignment;
  };

  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  [[nodiscard]] std::size_t alignment_of(std::size_t bytes, std::size_t alignment) const noexcept;
  /// What is asked of the upstream for such a request, without an address yet.
  [[nodiscard]] block asked_for(std::size_t bytes, std::size_t alignment) const noexcept;
  /// The address within what the upstream gave. Throws: std::bad_alloc; then nothing is kept.
  void* place(const block& given, std::size_t bytes, std::size_t alignment);
  /// What the upstream gave for `pointer`; nothing when it was not for it.
  std::optional<block> take(void* pointer, std::size_t bytes, std::size_t alignment) noexcept;

  const std::size_t alignment_;
  const std::size_t alignment_threshold_;
  std::mutex lock_;
  std::unordered_map<void*, block> moved_;  // by the address that was given for it
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Provides larger alignments than the upstream. Unlike RMM's, it also serves those of requests.
/// - Requests for at most default_alignment are forwarded unchanged.
/// - The memory of an aligned request is a whole multiple of its alignment long.
/// - The error handler gets deallocations with another size, and of memory allocated elsewhere.
/// Cost: alignment - 256 bytes and the rounding for each block, and a table lookup under a lock. A
/// vmm_pool_resource aligns without that cost: request the alignment there.
class aligned_resource_adaptor final : public resource_adaptor {
 public:
  /// Aligns requests of `alignment_threshold` bytes or more to at least `alignment`.
  /// Throws: std::invalid_argument when `alignment` is no power of two.
  explicit aligned_resource_adaptor(memory_resource* upstream,
                                    std::size_t alignment = default_alignment,
                                    std::size_t alignment_threshold = 0);

 private:
  struct block {
    void* pointer;
    std::size_t bytes;
    std::size_t alignment;
  };

  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  [[nodiscard]] std::size_t alignment_of(std::size_t bytes, std::size_t alignment) const noexcept;
  [[nodiscard]] request upstream_request(const request& wanted) const noexcept;
  std::optional<block> take(void* pointer, const request& freed) noexcept;

  const std::size_t alignment_;
  const std::size_t alignment_threshold_;
  std::mutex lock_;
  std::unordered_map<void*, block> moved_;
};

}  // namespace hipvmm::mr

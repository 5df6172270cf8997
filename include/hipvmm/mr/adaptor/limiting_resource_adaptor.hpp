// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Limits the number of bytes allocated at one time. Takes no lock.
/// - Memory that the upstream itself holds beyond them, such as a pool's, does not count.
/// - A request takes its share before the upstream is called: threads never exceed the limit.
/// - Sizes passed to deallocate() are not checked. The error handler gets a report only if more is
///   deallocated than is allocated.
class limiting_resource_adaptor final : public resource_adaptor {
 public:
  /// Each request counts as a multiple of `alignment` bytes.
  /// Throws: std::invalid_argument when `alignment` is no power of two.
  limiting_resource_adaptor(memory_resource* upstream, std::size_t allocation_limit,
                            std::size_t alignment = default_alignment);

  /// Bytes counted against the limit, including requests in progress at the upstream.
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept { return allocated_bytes_; }
  [[nodiscard]] std::size_t get_allocation_limit() const noexcept { return allocation_limit_; }

 private:
  /// Throws: out_of_memory (exhausted::limit) with the limit, the allocated and requested bytes.
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  [[nodiscard]] std::size_t counted(std::size_t bytes) const noexcept;
  std::size_t take_off(std::size_t bytes) noexcept;

  const std::size_t allocation_limit_;
  const std::size_t alignment_;
  std::atomic<std::size_t> allocated_bytes_{0};
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Gives no more bytes at a time than its limit; what the upstream itself holds beyond them, a pool
/// say, does not count. A request takes its share of the limit before the upstream is asked, so
/// threads never get beyond it together, and gives it back when the upstream fails; there is no
/// lock. Sizes are believed: only where more comes back than is out the error handler hears of it.
class limiting_resource_adaptor final : public resource_adaptor {
 public:
  /// `allocation_limit` in bytes; each request counts as a multiple of `alignment` bytes.
  /// Throws: std::invalid_argument when `upstream` is nullptr or `alignment` no power of two.
  limiting_resource_adaptor(memory_resource* upstream, std::size_t allocation_limit,
                            std::size_t alignment = default_alignment);

  /// What counts against the limit, in bytes, requests that the upstream works on included.
  [[nodiscard]] std::size_t get_allocated_bytes() const noexcept { return allocated_bytes_; }
  [[nodiscard]] std::size_t get_allocation_limit() const noexcept { return allocation_limit_; }

 private:
  class share;

  /// Throws: out_of_memory with exhausted::limit, which tells limit, allocated and asked.
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  [[nodiscard]] std::size_t counted(std::size_t bytes) const noexcept;
  /// Returns what was allocated before.
  std::size_t take_off(std::size_t bytes) noexcept;
  void came_back(std::size_t bytes) noexcept;

  const std::size_t allocation_limit_;
  const std::size_t alignment_;
  std::atomic<std::size_t> allocated_bytes_{0};
};

}  // namespace hipvmm::mr

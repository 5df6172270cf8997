// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

struct pool_state;

/// A pool of equal blocks, allocated many at a time from another resource.
/// - The stream that freed a block reuses it at once. Another stream reuses it after an event, or
///   at once if it is already ordered behind.
/// - A smaller request wastes the rest of its block. A larger one throws out_of_memory. Alignments
///   above 256 bytes are unsupported.
/// - Differs from RMM's: memory is released by trim_to(), and before a request is refused.
/// - Any number of threads and streams may use it. The upstream is called without a lock, so it may
///   call back.
/// - The destructor waits for work that uses deallocated memory.
class fixed_size_resource final : public resource_adaptor {
 public:
  static constexpr std::size_t default_block_size = std::size_t{1} << 20;
  static constexpr std::size_t default_blocks_to_preallocate = 128;

  /// Allocates `blocks_to_preallocate` blocks of `block_size` bytes from the upstream now, and
  /// again whenever no block is left; then only one if the upstream has not so many.
  /// Throws: std::invalid_argument for a zero, or more than 4 TiB in all; out_of_memory.
  explicit fixed_size_resource(memory_resource* upstream,
                               std::size_t block_size = default_block_size,
                               std::size_t blocks_to_preallocate = default_blocks_to_preallocate);
  ~fixed_size_resource() override;

  /// The largest request in bytes: a multiple of 256.
  [[nodiscard]] std::size_t get_block_size() const noexcept { return block_size_; }

  struct block_counts {
    std::size_t held;
    std::size_t used;  ///< by callers
  };
  [[nodiscard]] block_counts statistics() const;

  /// Releases upstream allocations without a used block until `blocks_to_keep` blocks are held, and
  /// returns the bytes released. Waits at most until `deadline` for work on free memory.
  std::size_t trim_to(std::size_t blocks_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// As vmm_pool_resource's.
  void note_stream_wait(stream_ref waiter, stream_ref other);
  void forget_stream(stream_ref stream);

  /// As memory_event::object.
  [[nodiscard]] std::uint64_t event_id() const noexcept;

 private:
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept override;

  std::size_t block_size_;
  std::size_t held_bytes_;  // for each block
  /// Throws: unsupported in a child of fork().
  [[nodiscard]] pool_state& live() const;

  std::unique_ptr<pool_state> state_;
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

struct pool_state;

/// Blocks of one size in memory of another resource, which it takes many blocks at a time. A block
/// serves its stream again at once, and another one behind an event or where the order is known.
/// Blocks of one size waste nothing between them; a request that is smaller wastes the rest of its
/// block, a larger one is out_of_memory, and alignments above 256 bytes are unsupported.
/// Differs from RMM's in giving memory back when told to, and before it refuses a request.
/// Any number of threads and streams may use it. The upstream is called outside all locks, so it
/// may call back. Its end waits for work that uses what was given back.
class fixed_size_resource final : public resource_adaptor {
 public:
  static constexpr std::size_t default_block_size = std::size_t{1} << 20;
  static constexpr std::size_t default_blocks_to_preallocate = 128;

  /// Takes `blocks_to_preallocate` blocks of `block_size` bytes from the upstream now, and as many
  /// whenever there are none left; just one where the upstream has not so much.
  /// Throws: std::invalid_argument for no upstream or a zero; out_of_memory.
  explicit fixed_size_resource(memory_resource* upstream,
                               std::size_t block_size = default_block_size,
                               std::size_t blocks_to_preallocate = default_blocks_to_preallocate);
  ~fixed_size_resource() override;

  /// Of a block, in bytes, and the largest request: a multiple of 256.
  [[nodiscard]] std::size_t get_block_size() const noexcept { return block_size_; }

  struct block_counts {
    std::size_t held;  ///< by this resource
    std::size_t used;  ///< of these, handed out
  };
  [[nodiscard]] block_counts statistics() const;

  /// Gives what was taken from the upstream back, as it was taken, where no block of it is used any
  /// more, until `blocks_to_keep` are held. Returns the bytes that went. Waits until `deadline` at
  /// most for work that still uses what is free.
  std::size_t trim_to(std::size_t blocks_to_keep,
                      std::chrono::steady_clock::time_point deadline = {});

  /// As vmm_pool_resource's, for streams and events that are not hipvmm's own.
  void note_stream_wait(stream_ref waiter, stream_ref other);
  void forget_stream(stream_ref stream);

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  void require_fit(std::size_t bytes) const;

  std::size_t block_size_;
  std::size_t held_bytes_;  // of a block
  std::unique_ptr<pool_state> state_;
};

}  // namespace hipvmm::mr

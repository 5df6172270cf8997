// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {
class vmm_pool_resource;
}  // namespace hipvmm::mr

namespace hipvmm::c {

/// The memory of graphs that are captured one after another and share it. Memory that is freed
/// while a graph is captured serves that graph again, in the stream that had it, and belongs to the
/// graph until that has ended: so no pool may have it meanwhile. Not thread-safe.
class graph_blocks {
 public:
  explicit graph_blocks(mr::vmm_pool_resource& pool) : pool_{&pool} {}
  graph_blocks(const graph_blocks&) = delete;
  graph_blocks& operator=(const graph_blocks&) = delete;

  /// Allocates for `stream`, which is being captured or soon will. Throws: as the pool;
  /// std::bad_alloc; then all is as before.
  void* allocate(std::size_t bytes, stream_ref stream);
  /// The permitted reuse of a freed block.
  enum class reuse {
    at_once,           ///< for its stream
    after_the_capture  ///< other streams use it too
  };
  /// Returns the size of the block, which allocate() rounded up.
  std::size_t deallocate(void* pointer, reuse next) noexcept;
  /// The same for a block that is free for its stream when `passed` is done; without an event when
  /// release_idle() is called.
  std::size_t deallocate_after(void* pointer, std::optional<event> passed) noexcept;
  /// A capture has ended: blocks that other streams used are free.
  void end_capture() noexcept;
  /// Returns segments without an allocated block to the pool, which reuses them after all present
  /// work of the devices. Returns whether none is left. Pre: no capture is under way.
  bool release_idle() noexcept;

 private:
  enum class use { none, allocated, freed_in_capture, used_by_others };
  struct block {
    std::size_t bytes;
    stream_ref stream;
    use now;
    bool begins_segment;
    std::optional<event> passed = std::nullopt;  // if others use it
  };
  using blocks = std::map<std::uintptr_t, block>;

  /// Frees blocks of other streams whose work is done.
  void free_passed() noexcept;
  [[nodiscard]] blocks::iterator best_fit(std::size_t bytes, stream_ref stream) noexcept;
  blocks::iterator add_segment(std::size_t bytes, stream_ref stream);
  void split(blocks::iterator whole, std::size_t bytes);
  /// Returns the block that it is a part of then.
  blocks::iterator set_free(blocks::iterator freed) noexcept;
  [[nodiscard]] bool joins(blocks::iterator left, blocks::iterator right) const noexcept;

  mr::vmm_pool_resource* pool_;
  blocks blocks_;
};

}  // namespace hipvmm::c

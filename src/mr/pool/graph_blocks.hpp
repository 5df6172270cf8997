// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/capture_mode.hpp"

namespace hipvmm::mr::pool {

/// Memory of graphs that are captured one after another. Memory freed in a capture serves it again,
/// in the same stream or in one ordered after that. No pool may have it before the graph has ended.
/// Not thread-safe.
class graph_blocks {
 public:
  /// As in PyTorch's allocator, so that a graph needs no more memory than there.
  static constexpr std::size_t unit = 512;

  explicit graph_blocks(memory_resource& upstream) : upstream_{&upstream} {}
  graph_blocks& operator=(graph_blocks&&) = delete;

  /// Serves a stream, captured now or soon, from free memory or a new segment. Throws: as the
  /// upstream; std::bad_alloc; then nothing is allocated, but the segment may stay.
  void* allocate(std::size_t bytes, std::size_t alignment, stream_ref stream);
  /// The same without a new segment; nullptr if no memory is large enough. With `place`, the place
  /// of `stream` in its capture, also memory that other streams freed before that.
  void* try_allocate(std::size_t bytes, std::size_t alignment, stream_ref stream,
                     const detail::capture_place* place);
  /// Adds segment_bytes() of the upstream, free for `stream` or for all. Throws: std::bad_alloc,
  /// after it has returned the memory.
  void add_segment(void* memory, std::size_t bytes, std::size_t alignment,
                   std::optional<stream_ref> stream);
  [[nodiscard]] static std::size_t segment_bytes(std::size_t bytes) noexcept;
  enum class reuse {
    at_once,            ///< for its stream
    after_the_capture,  ///< when the capture has ended: other streams use it too
    after_another       ///< when the next capture has ended, because the free may belong to it
  };
  /// 0 if no allocation begins there.
  [[nodiscard]] std::size_t size_of(const void* pointer) const noexcept;
  /// The second overload: the block serves `stream` at once, and streams of the capture that are
  /// ordered after `place`. Pre: size_of() is not 0.
  void deallocate(void* pointer, reuse next) noexcept;
  void deallocate(void* pointer, stream_ref stream, detail::capture_place place) noexcept;
  /// The block is reused when `passed` is done; without an event, only after release_idle().
  void deallocate_after(void* pointer, std::optional<event> passed) noexcept;
  /// Frees the blocks of reuse::after_the_capture.
  void end_capture() noexcept;
  /// Begins another capture. Its graph never runs beside the others'. All that is not allocated
  /// serves any of its streams, except blocks of reuse::after_another, which wait for the next.
  void start_over() noexcept;
  /// Returns segments without an allocated block to the upstream, which reuses them after all
  /// present work of the devices. Returns whether none is left. Pre: no capture is under way.
  bool release_idle() noexcept;
  /// The same for all segments, with their allocations.
  void release() noexcept;
  void swap(graph_blocks& other) noexcept;
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_; }

 private:
  enum class use { none, allocated, freed_in_capture, freed_in_any, used_by_others };
  struct block {
    std::size_t bytes;
    std::optional<stream_ref> stream;  // that may use the block
    use now;
    std::size_t segment_alignment;             // of a block that begins a segment; 0 for others
    std::vector<hipGraphNode_t> last_nodes{};  // streams ordered after these may use it too; sorted
    std::optional<event> passed = std::nullopt;  // if others use it
  };
  using blocks = std::map<std::uintptr_t, block>;
  /// `earlier`: all nodes before the stream's place, sorted.
  struct user {
    stream_ref stream;
    const std::vector<hipGraphNode_t>* earlier;
    [[nodiscard]] bool may_have(const block& one) const noexcept;
  };

  void free_passed() noexcept;
  [[nodiscard]] std::optional<std::uintptr_t> best_fit(std::size_t bytes, std::size_t alignment,
                                                       const user& who) const noexcept;
  /// Throws: std::bad_alloc.
  blocks::iterator split_at(std::uintptr_t address);
  [[nodiscard]] blocks::iterator find(const void* pointer) noexcept;
  /// Returns the block that the freed one is a part of then.
  blocks::iterator set_free(blocks::iterator freed) noexcept;
  [[nodiscard]] bool joins(blocks::iterator left, blocks::iterator right) const noexcept;

  memory_resource* upstream_;
  blocks blocks_;
  std::size_t held_bytes_ = 0;
};

}  // namespace hipvmm::mr::pool

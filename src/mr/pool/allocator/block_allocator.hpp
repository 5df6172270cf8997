// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_snapshot.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "mr/pool/allocator/maintenance.hpp"
#include "mr/pool/allocator/pool_backing.hpp"
#include "mr/pool/allocator/pool_blocks.hpp"
#include "runtime/stream_watch.hpp"

namespace hipvmm::mr::pool {

inline constexpr const char* captured_stream =
    "the stream is being captured into a graph, which may run again and again: give the memory "
    "back when the last launch is submitted";

/// Without `callbacks`.
struct allocator_statistics : pool_statistics {
  /// Longest run of addresses that one request can get, with new memory where there is none.
  std::size_t largest_place = 0;
  std::size_t states = 0;
};

struct listed_block {
  std::size_t offset;
  std::size_t bytes;
  block_use use;
  std::uintptr_t stream;  ///< handle; 0: none, or gone
};

/// Allocates ranges of a pool's addresses, by offset. Thread-safe: a thread's cache serves most
/// requests by its own spin lock, the state lock most others, the slow path the rest.
class block_allocator {
 public:
  static constexpr std::size_t unit = block_index::unit;

  block_allocator(memory_backend& memory, fence_source& fences, std::uintptr_t base)
      : blocks_{memory, fences, base}, backing_{memory} {}

  /// Constant while a block is used.
  [[nodiscard]] std::uintptr_t base() const noexcept { return blocks_.index.base(); }
  /// Made at first use, and kept until the stream is forgotten.
  [[nodiscard]] stream_state& state_of(stream_ref stream) {
    return stream.is_per_thread_default() ? state_of_thread(stream) : *cache_user_of(stream).state;
  }
  /// Takes a handle that means another stream in each thread.
  [[nodiscard]] stream_state& state_of_thread(stream_ref stream) {
    return blocks_.streams.state_of(stream, this_thread_number());
  }
  [[nodiscard]] stream_state& idle() noexcept { return blocks_.streams.idle(); }
  [[nodiscard]] stream_state& all_streams() noexcept { return blocks_.streams.all_streams(); }

  /// Allocates whole units; nullopt if the limit or the addresses leave no place. Pre: `user` is
  /// idle() for a graph, which may run in any stream. Throws: out_of_memory, hip_error;
  /// std::logic_error while asleep.
  [[nodiscard]] std::optional<std::size_t> allocate(stream_state& user, const request& wanted);
  /// Returns false, with nothing done, unless `bytes` are in use at `offset`.
  bool deallocate(stream_state& user, std::size_t offset, std::size_t bytes) noexcept;

  struct cache_user {
    stream_state* state;
    thread_cache* cache;
  };
  [[nodiscard]] cache_user cache_user_of(stream_ref stream) {
    const std::uint64_t serial = serial_.load(std::memory_order_acquire);
    const std::uint64_t key = reinterpret_cast<std::uintptr_t>(stream.get()) + serial;
    const std::size_t place = key * 0x9E3779B97F4A7C15U >> (64 - remembered_bits);
    const remembered last = last_used[place];
    if (last.serial == serial && last.stream == stream.get()) [[likely]]
      return last.user;
    return remember_user(last_used[place], serial, stream);
  }
  /// npos without a block. A std::optional returned in registers would stall.
  [[nodiscard]] std::size_t cached_small_block(const cache_user& user,
                                               std::size_t class_index) noexcept {
    const std::size_t cached = user.cache->pop(class_index);
    if (cached != thread_cache::npos)
      static_cast<void>(blocks_.small_blocks.to_caller(cached, class_index, user.state->id()));
    return cached;
  }
  [[nodiscard]] std::size_t cached_block(const cache_user& user, std::size_t bytes) noexcept {
    const std::size_t cached = user.cache->pop_block(bytes);
    if (cached != thread_cache::npos)
      static_cast<void>(blocks_.small_blocks.to_caller(cached, block_class, user.state->id()));
    return cached;
  }
  /// deallocate_small_block() returns false, with nothing done, unless a caller has such a block.
  [[nodiscard]] std::optional<std::size_t> allocate_small_block(const cache_user& user,
                                                                std::size_t class_index,
                                                                slab_supply* supply = nullptr);
  bool deallocate_small_block(const cache_user& user, std::size_t class_index,
                              std::size_t offset) noexcept {
    if (!blocks_.small_blocks.to_cache(offset, class_index, user.state->id())) return false;
    if (!user.cache->push(class_index, offset)) push_over_oldest(user, class_index, offset);
    // A request that lacked memory may have emptied the cache before this push.
    if (blocks_.waiting_requests.load() != 0) [[unlikely]]
      blocks_.empty_caches(*user.state);
    return true;
  }
  /// The same for larger blocks, of which a cache keeps one.
  [[nodiscard]] std::optional<std::size_t> allocate_block(const cache_user& user, std::size_t bytes,
                                                          slab_supply* supply = nullptr);
  bool deallocate_block(const cache_user& user, std::size_t offset, std::size_t bytes) noexcept;
  /// Throws: std::bad_alloc.
  void empty_all_caches();

  /// Makes a fence first, because a later call cannot: for per-thread streams, and if frees make
  /// the newest fence. Throws: std::invalid_argument while captured; as fence_source::fence_for.
  bool deallocate_and_record(stream_state& user, std::size_t offset, std::size_t bytes);
  struct allocation {
    std::size_t bytes;
    stream_state* user;  ///< nullptr: forgotten, or of another thread
  };
  [[nodiscard]] std::optional<allocation> find(std::size_t offset);

  /// Work of `waiter` from now on is ordered after work on all memory freed in `other`.
  void add_dependency(stream_state& waiter, stream_state& other);
  /// Ends the epoch of memory freed in `stream`, and returns it; empty if all has passed. Leaves
  /// out memory in caches unless `with_caches`.
  [[nodiscard]] detail::stream_point current_epoch(stream_ref stream, bool with_caches = true);
  /// Work of `waiter` from now on is ordered after work on all memory freed up to that epoch.
  void add_dependency(stream_ref waiter, const detail::stream_point& reached);
  /// Work on memory freed up to that epoch has passed.
  void note_passed(const detail::stream_point& reached);
  /// Makes a fence cover all memory freed in `stream`, which may then be destroyed. `is_ending`:
  /// ~stream calls it. Throws: std::invalid_argument while `stream` is captured, if memory freed in
  /// it lacks a fence.
  void forget(stream_ref stream, bool is_ending = false);
  /// Forgets a stream that is destroyed in any case. If no fence can be made, memory freed in it
  /// waits for all work. Throws: as forget, after that.
  void forget_ended(stream_ref stream);

  /// Releases idle chunks until `bytes_to_keep` are left or `deadline` has come. Returns the bytes
  /// released or given. Other threads get their turns after every few chunks, or a 64th of the idle
  /// ones.
  std::size_t trim(std::size_t bytes_to_keep, std::chrono::steady_clock::time_point deadline,
                   chunk_gift* gift = nullptr);
  /// One turn, without a wait.
  maintenance::trimmed trim_some(std::size_t bytes_to_keep);
  /// Whether chunks have old addresses that are still mapped, other than those that HIP refused to
  /// unmap: each retry of these is reported. Takes no lock.
  [[nodiscard]] bool has_addresses_to_unmap() const noexcept {
    return backing_.to_unmap.load(std::memory_order_relaxed) != 0;
  }
  void unmap_old_addresses();
  /// Waits until no work uses freed memory, except work in a capture.
  void drain();
  void record_fences();
  /// Leaves a free block of that size, if there is room.
  void reserve(std::size_t bytes);
  /// Runs `work` while no other thread uses the backend.
  template <typename Work>
  auto with_backend(Work work) {
    const backing_turn turn{backing_.turns};
    return work();
  }

  /// Until wake(), requests are refused with that text, which must live on; caches and trims do
  /// nothing. Blocks may be freed.
  void begin_sleep(const std::string& refusal) noexcept;
  void wake() noexcept;
  [[nodiscard]] bool is_asleep() {
    return blocks_.with_lock([this] { return blocks_.refusal != nullptr; });
  }
  /// Releases all idle chunks; with `may_wait`, after work on freed memory. Pre: it is asleep.
  /// Throws: std::invalid_argument while an old address is mapped, or if a request waits and this
  /// may not; as the backend.
  void release_idle(const char* function, bool may_wait);

  [[nodiscard]] pool_reuse reuse() {
    return blocks_.with_lock([this] { return blocks_.reuse; });
  }
  void set_reuse(pool_reuse reuse) {
    blocks_.with_lock([&] { blocks_.reuse = reuse; });
  }
  void set_limit(std::size_t physical_bytes) {
    blocks_.with_lock([&] { blocks_.limit = physical_bytes; });
  }
  void set_largest_chunk(std::size_t bytes) {
    blocks_.with_lock([&] { blocks_.largest_chunk = bytes; });
  }
  /// Pre: no request was made.
  void set_event_origin(const detail::event_origin& origin) noexcept { blocks_.events = origin; }
  /// Takes no lock.
  [[nodiscard]] std::size_t physical_bytes() const noexcept { return blocks_.physical_bytes(); }
  void reset_highs() {
    blocks_.with_lock([this] { blocks_.index.reset_highs(); });
  }

  /// Scans caches, gaps, and free blocks that are adjacent or may hold a chunk, under the state
  /// lock. `fresh`: for largest_possible, which is 0 without it. Throws: std::bad_alloc.
  [[nodiscard]] allocator_statistics usage_snapshot(std::optional<new_memory> fresh = std::nullopt);
  /// Whether a release of all idle chunks, and `fresh` bytes more, could serve `bytes`. Only false
  /// is definite. Throws: std::bad_alloc.
  [[nodiscard]] bool may_release_serve(std::size_t bytes, std::size_t fresh);
  /// Without numbers that need a visit of memory. Memory in caches counts as used.
  [[nodiscard]] pool_statistics counters();
  /// Visits the caches only.
  [[nodiscard]] pool_usage held_and_used();
  /// All blocks with memory, by offset, without those that a thread works on. Pre: called by the
  /// work of with_backend(). Throws: std::bad_alloc.
  [[nodiscard]] std::vector<listed_block> list_blocks();

 private:
  using state_lock = pool_blocks::state_lock;
  struct remembered {
    std::uint64_t serial;
    ihipStream_t* stream;
    cache_user user;
  };
  static constexpr unsigned remembered_bits = 6;
  static inline thread_local constinit std::array<remembered, 1 << remembered_bits> last_used{};

  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  void end_state(stream_state& left, std::shared_ptr<const fence> recorded);
  [[nodiscard]] cache_user remember_user(remembered& place, std::uint64_t serial,
                                         stream_ref stream);
  void push_over_oldest(const cache_user& user, std::size_t class_index,
                        std::size_t offset) noexcept;
  /// Creates memory anew if a trim of all `returned` too much. Returns the bytes still released.
  std::size_t restore_kept(std::size_t bytes_to_keep, std::size_t returned);
  /// Returns how many used blocks it cut from free memory.
  std::size_t take_batch(stream_state& user, std::size_t bytes, std::size_t* offsets,
                         std::size_t count);
  void add_small_block(stream_state& user, std::size_t offset, std::size_t class_index,
                       std::size_t bytes);
  /// Returns false, with nothing done, if no larger block of that size begins there.
  [[nodiscard]] bool free_large_block(stream_state& user, std::size_t offset,
                                      std::size_t bytes) noexcept;
  /// Removes the block's entry, if it has one, and sets `bytes` to its size. Returns false for an
  /// entry of another size, or of a cached block.
  [[nodiscard]] bool remove_small_block(std::size_t offset, std::size_t& bytes) noexcept;

  // New for each allocator, and after each end_state(), so that threads remember no forgotten
  // state.
  std::atomic<std::uint64_t> serial_{next_serial()};
  pool_blocks blocks_;
  pool_backing backing_;
};

}  // namespace hipvmm::mr::pool

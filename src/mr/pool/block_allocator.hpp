// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <hipvmm/mr/pool_reuse.hpp>
#include "mr/pool/allocator_state.hpp"
#include "mr/pool/maintenance.hpp"
#include "mr/pool/usage.hpp"

namespace hipvmm::mr::pool {

struct pool_counters {
  std::array<std::uint64_t, pool_source_count> served{};
  std::uint64_t chunks_created = 0;
  std::uint64_t chunks_moved = 0;
  std::size_t physical_bytes = 0;
  std::size_t physical_high = 0;
  std::size_t used_bytes = 0;  ///< with what caches hold
  std::size_t used_high = 0;
};

/// Why memory is not taken back in a stream that is being captured.
inline constexpr const char* captured_stream =
    "the stream is being captured into a graph, which may run again and again: give the memory "
    "back when the last launch is submitted";

/// Decides which addresses of a pool a request gets, which chunks back them, and whose streams may
/// use what. Offsets count from the start of the pool's addresses. Thread-safe: a thread's cache
/// serves most requests without a lock, the state lock most others, and the slow path the rest.
class block_allocator {
 public:
  static constexpr std::size_t unit = block_index::unit;

  /// `base`: where the addresses begin.
  block_allocator(memory_backend& memory, fence_source& fences, std::uintptr_t base)
      : all_{memory, fences, base} {}

  /// The address of offset 0. It changes only while nothing is used.
  [[nodiscard]] std::uintptr_t base() const noexcept {
    return all_.start.load(std::memory_order_relaxed);
  }
  /// The state of `stream`, made at first use. It is the stream's until that is forgotten.
  [[nodiscard]] stream_state& state_of(stream_ref stream) { return *small_user_of(stream).state; }
  /// The state of a name that means another stream in each thread.
  [[nodiscard]] stream_state& state_of_thread(stream_ref stream) {
    return all_.streams.state_of(stream, this_thread_number());
  }
  /// What nothing uses belongs to this one.
  [[nodiscard]] stream_state& idle() noexcept { return all_.streams.idle(); }
  /// What is freed without a stream belongs to this one: work of any stream may still use it.
  [[nodiscard]] stream_state& all_streams() noexcept { return all_.streams.all_streams(); }

  /// Offset of `bytes` bytes, a multiple of the unit, for `user`; nullopt when memory is lacking.
  /// Throws: out_of_memory, hip_error of the backend and of fences.
  [[nodiscard]] std::optional<std::size_t> allocate(stream_state& user, std::size_t bytes,
                                                    std::size_t alignment) {
    return allocate(user, {bytes, alignment});
  }
  /// The same for a stream that is being captured: what the graph does with the memory may run in
  /// any stream, so that nothing may be using it.
  [[nodiscard]] std::optional<std::size_t> allocate_for_graph(std::size_t bytes,
                                                              std::size_t alignment) {
    return allocate(idle(), {bytes, alignment, true});
  }
  /// Frees what begins at `offset`; false, nothing done, unless `bytes` are in use there.
  bool deallocate(stream_state& user, std::size_t offset, std::size_t bytes) noexcept;

  /// What one thread needs to serve requests of a stream from its cache.
  struct small_user {
    stream_state* state;
    thread_cache* cache;
  };
  [[nodiscard]] small_user small_user_of(stream_ref stream);
  /// Offset of what the cache has of that class, or for a block of that size; npos when it has
  /// none. Not a std::optional, which stalls each hit when it is returned in registers.
  [[nodiscard]] std::size_t cached_small_block(const small_user& user,
                                               std::size_t class_index) noexcept;
  [[nodiscard]] std::size_t cached_block(const small_user& user, std::size_t bytes) noexcept;
  /// As allocate and deallocate, for a size class, when the cache has none. False also for what is
  /// no such block.
  [[nodiscard]] std::optional<std::size_t> allocate_small_block(const small_user& user,
                                                                std::size_t class_index);
  bool deallocate_small_block(const small_user& user, std::size_t class_index,
                              std::size_t offset) noexcept;
  /// The same for larger blocks, of which a cache keeps the last few.
  [[nodiscard]] std::optional<std::size_t> allocate_block(const small_user& user,
                                                          std::size_t bytes);
  bool deallocate_block(const small_user& user, std::size_t offset, std::size_t bytes) noexcept;
  /// What caches hold becomes free. Throws: std::bad_alloc.
  void empty_all_caches();

  /// As deallocate, for a stream in which other threads cannot make a fence, their per-thread
  /// streams above all: one is made at once. Throws: std::invalid_argument while it is captured.
  bool deallocate_and_record(stream_state& user, std::size_t offset, std::size_t bytes);
  struct allocation {
    std::size_t bytes;
    stream_state* user;  ///< nullptr: a stream that was forgotten, or another thread's own
  };
  /// What is in use at `offset`, and the stream that it was allocated in; nullopt when nothing
  /// begins there.
  [[nodiscard]] std::optional<allocation> find(std::size_t offset);

  /// Declares that work of `waiter` from now on is ordered behind all that was freed in `other`.
  void add_dependency(stream_state& waiter, stream_state& other);
  /// An epoch of a state that has ended.
  struct stream_epoch {
    stream_state* state = nullptr;
    std::uint64_t epoch = 0;
  };
  /// Ends the epoch of what was freed in `stream` until now; empty where that is nothing, or has
  /// passed. What caches hold is left out unless these are to be emptied.
  [[nodiscard]] stream_epoch current_epoch(stream_ref stream, bool with_caches = true);
  /// Work of `waiter` from now on is ordered behind all that was freed up to that epoch.
  void add_dependency(stream_ref waiter, const stream_epoch& reached);
  /// All that was freed up to that epoch has passed.
  void note_passed(const stream_epoch& reached);
  /// `stream` may be destroyed after this: a fence covers what was freed in it.
  /// Throws: std::invalid_argument while it is captured.
  void forget(stream_ref stream);
  /// The same for a stream that is destroyed in any case. Where no fence can be made, what was
  /// freed in it becomes free only when somebody has waited for all work. Throws: as forget, after
  /// that.
  void forget_ended(stream_ref stream);

  /// Gives idle chunks back until `bytes_to_keep` are left or `deadline` has come, and returns how
  /// many bytes went. Other threads have their turns between every few chunks.
  std::size_t trim(std::size_t bytes_to_keep, std::chrono::steady_clock::time_point deadline);
  /// One turn of a trim, which waits for nobody, for whoever comes again.
  maintenance::trimmed trim_some(std::size_t bytes_to_keep);
  /// Whether chunks have old addresses that are still mapped. Made without a lock.
  [[nodiscard]] bool has_old_addresses() const noexcept {
    return all_.left_mapped.load(std::memory_order_relaxed) != 0;
  }
  /// The same without those that HIP has refused to unmap, which are tried again with others: who
  /// asked for them again and again would report each refusal.
  [[nodiscard]] bool has_addresses_to_unmap() const noexcept {
    return all_.to_unmap.load(std::memory_order_relaxed) != 0;
  }
  /// Unmaps those that nothing uses any more.
  void unmap_old_addresses();
  /// Waits until nothing uses what was freed; not where a capture hides it.
  void drain();
  /// Makes a fence for each stream that lacks one.
  void record_fences();
  /// Backs at least `bytes` in all, for later.
  void reserve(std::size_t bytes);
  /// Runs `work` while no other thread uses the backend.
  template <typename Work>
  auto with_backend(Work work) {
    const slow_path_turn turn{all_};
    return work();
  }

  void set_reuse(pool_reuse reuse);
  void set_limit(std::size_t physical_bytes);
  [[nodiscard]] pool_counters counters();
  /// Of chunks. Made without a lock.
  [[nodiscard]] std::size_t physical_bytes() const noexcept { return all_.index.physical_bytes(); }
  void reset_highs();
  [[nodiscard]] usage usage_snapshot() { return pool::usage_snapshot(all_); }
  [[nodiscard]] std::string name() const;

 private:
  using state_lock = allocator_state::state_lock;

  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  [[nodiscard]] std::optional<std::size_t> allocate(stream_state& user, const request& wanted);
  /// A pool that releases all or nothing creates anew what it should have kept. `returned`: the
  /// bytes that it released. Returns those that are left of them.
  std::size_t restore_kept(std::size_t bytes_to_keep, std::size_t returned);
  /// Cuts up to `count` used blocks of `bytes` bytes out of what is free, and returns how many.
  std::size_t take_batch(stream_state& user, std::size_t bytes, std::size_t* offsets,
                         std::size_t count);
  void add_small_block(stream_state& user, std::size_t offset, std::size_t class_index,
                       std::size_t bytes);
  /// What begins at `offset` is a block like others from now on: `bytes` becomes its size. False
  /// for a small block that is of another size, or in a cache.
  [[nodiscard]] bool remove_small_block(std::size_t offset, std::size_t& bytes) noexcept;

  // Tells what a thread remembers of this allocator from what it remembers of others, and of times
  // before a stream was forgotten.
  std::atomic<std::uint64_t> serial_{next_serial()};
  allocator_state all_;
};

}  // namespace hipvmm::mr::pool

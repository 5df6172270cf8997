// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "core/check.hpp"
#include "mr/pool/address_space.hpp"
#include "mr/pool/backend.hpp"
#include "mr/pool/small_blocks.hpp"
#include "mr/pool/stream_state.hpp"

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

/// How the memory lies.
struct usage {
  std::size_t address_bytes = 0;   ///< reserved
  std::size_t physical_bytes = 0;  ///< held from the device
  std::size_t mapped_bytes = 0;    ///< the same and old addresses of moved chunks
  std::size_t used_bytes = 0;      ///< handed out to callers
  std::size_t largest_run = 0;     ///< longest stretch of free memory; that of caches is free too
  std::size_t largest_moved = 0;   ///< the same after all idle chunks moved there
  std::size_t blocks = 0;
  std::size_t states = 0;
  struct stream_share {
    stream_ref stream;
    std::size_t free_bytes;
  };
  std::vector<stream_share> streams;  ///< the first: what is idle
};

/// The bookkeeping of a pool: which addresses a request gets, which chunks lie behind them, whose
/// streams may use what. Offsets count from the start of the pool's addresses. Thread-safe: the
/// books have one lock, held for steps in trees only; misses have another, under which one thread
/// at a time makes HIP calls while others find what is there.
class block_allocator {
 public:
  /// Unit of all sizes and offsets.
  static constexpr std::size_t unit = 256;

  /// `base` is where the addresses begin.
  block_allocator(memory_backend& memory, fence_source& order, std::uintptr_t base);

  /// What the debug log calls the pool, by where its addresses begin.
  [[nodiscard]] std::string name() const;
  /// The state of `stream`, made at first use. It is the stream's until that is forgotten.
  [[nodiscard]] stream_state& state_of(stream_ref stream);
  /// The state of a name that means another stream in each thread.
  [[nodiscard]] stream_state& state_of_thread(stream_ref stream);
  /// What is idle belongs to this one.
  [[nodiscard]] stream_state& idle() noexcept { return idle_; }

  /// Offset of `bytes` bytes, a multiple of the unit, for `user`; nullopt when memory is lacking.
  /// Throws: out_of_memory, hip_error of the sides.
  [[nodiscard]] std::optional<std::size_t> allocate(stream_state& user, std::size_t bytes,
                                                    std::size_t alignment);
  /// Takes back what begins at `offset`; false, nothing done, unless `bytes` are in use there.
  bool deallocate(stream_state& user, std::size_t offset, std::size_t bytes) noexcept;
  /// What one thread needs to serve small requests of a stream.
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
  /// As allocate and deallocate, for a class of pieces, when the cache has none. False also for
  /// what is no such piece, which may be a block.
  [[nodiscard]] std::optional<std::size_t> allocate_small_block(stream_state& user,
                                                                thread_cache& cache,
                                                                std::size_t class_index);
  bool deallocate_small_block(stream_state& user, thread_cache& cache, std::size_t class_index,
                              std::size_t offset) noexcept;
  /// The same for larger blocks, of which a cache keeps the last few.
  [[nodiscard]] std::optional<std::size_t> allocate_block(stream_state& user, thread_cache& cache,
                                                          std::size_t bytes);
  bool deallocate_block(stream_state& user, thread_cache& cache, std::size_t offset,
                        std::size_t bytes) noexcept;
  /// What caches hold becomes free.
  void empty_all_caches();

  /// The same for a stream that other threads cannot mark, their per-thread streams above all: it
  /// is marked at once. Throws: std::invalid_argument while it is captured.
  bool deallocate_and_record(stream_state& user, std::size_t offset, std::size_t bytes);
  /// Bytes in use at `offset`, and the stream that they were taken in; nullopt when nothing begins
  /// there.
  struct allocation {
    std::size_t bytes;
    stream_state* user;  ///< nullptr: a stream that was forgotten, or another thread's own
  };
  [[nodiscard]] std::optional<allocation> find(std::size_t offset);

  /// Work of `waiter` from now on comes behind all that was given back in `other`.
  void add_dependency(stream_state& waiter, stream_state& other);
  /// A epoch of a state that has ended.
  struct point {
    stream_state* state = nullptr;
    std::uint64_t epoch = 0;
  };
  /// Ends the epoch of what was given back in `stream` until now; no point where that is nothing,
  /// or all over.
  [[nodiscard]] point reach(stream_ref stream);
  /// Work of `waiter` from now on comes behind all that was given back until that point.
  void add_dependency(stream_ref waiter, const point& reached);
  /// All that was given back until that point is over.
  void note_passed(const point& reached);
  /// `stream` may be destroyed after this: a mark covers for what was given back in it.
  /// Throws: std::invalid_argument while it is captured.
  void forget(stream_ref stream);
  /// The same for a stream that is destroyed in any case. Where no mark can be made, what it gave
  /// back becomes free only when somebody has waited for all work. Throws: as forget, after that.
  void forget_ended(stream_ref stream);
  /// Gives idle chunks back until `bytes_to_keep` are left or `deadline` has come, and returns how
  /// many bytes went. Other threads have their turns between every few chunks.
  std::size_t trim(std::size_t bytes_to_keep, std::chrono::steady_clock::time_point deadline);
  /// One turn of a trim, which waits for nobody, for whoever comes again: the old addresses of
  /// chunks that have moved end too.
  struct trimmed {
    std::size_t bytes;           ///< given back
    bool may_go_on;              ///< there may be more, now or when streams have come further
    bool keeps_aliases = false;  ///< old addresses are still in use
  };
  trimmed trim_some(std::size_t bytes_to_keep);
  /// Old addresses of moved chunks end whose work has passed.
  void unmap_old_addresses();
  /// Waits until the work is over that uses what was given back; not where a capture hides it.
  void drain();
  /// Backs at least `bytes` in all, for later.
  void reserve(std::size_t bytes);
  /// Keeps everybody from the sides while it lives. What fails meanwhile is told afterwards, for an
  /// error handler may use the pool.
  class slow_path_turn {
   public:
    explicit slow_path_turn(block_allocator& all)
        : wait_{told_later_}, lock_{all.slow_path_mutex_} {}

   private:
    detail::held_reports told_later_;
    detail::reports_wait wait_;
    std::lock_guard<std::mutex> lock_;
  };
  void set_reuse(pool_reuse rules);
  void set_limit(std::size_t physical_bytes);
  [[nodiscard]] pool_counters counters();
  void reset_highs();
  [[nodiscard]] usage usage_snapshot();

 private:
  friend class slow_path;
  using state_lock = std::unique_lock<std::mutex>;

  struct chunk {
    std::size_t bytes;
    std::uint64_t order;  // of creation
  };
  using chunk_map = std::map<std::size_t, chunk>;  // by offset
  /// An old address of a chunk that work under way may still use.
  struct old_address {
    block* addresses;
    std::uint64_t order;  // of the chunk
    stream_state* owner;
    std::uint64_t epoch;
  };

  [[nodiscard]] std::size_t aligned(std::size_t offset, std::size_t alignment) const noexcept {
    return ((base_ + offset + alignment - 1) & ~(alignment - 1)) - base_;
  }
  [[nodiscard]] static std::uint64_t next_serial() noexcept;
  [[nodiscard]] stream_state& find_or_make_state(stream_ref stream, std::uint64_t thread);
  /// That of `stream` for the calling thread; nullptr when there is none.
  [[nodiscard]] stream_state* present_state(stream_ref stream);
  // Those with fences: the lock of misses is held.
  void poll_fences(stream_state& of);
  /// What forgotten streams gave back and have passed is idle, and their states serve others.
  void recycle_forgotten();
  /// Cuts up to `count` used blocks of `bytes` bytes out of what is free, and returns how many.
  std::size_t take_batch(stream_state& user, std::size_t bytes, std::size_t* offsets,
                         std::size_t count);
  void add_small_block(stream_state& user, std::size_t offset, std::size_t class_index,
                       std::size_t bytes);
  void free_cached_block(stream_state& user, const thread_cache::block_at& one) noexcept;
  void free_small_blocks(stream_state& user, std::size_t class_index, const std::size_t* offsets,
                         std::size_t count) noexcept;
  /// What begins at `offset` is a block like others from now on: `bytes` becomes its size. False
  /// for a piece that is of another size, or in a cache.
  [[nodiscard]] bool remove_small_block(std::size_t offset, std::size_t& bytes) noexcept;
  void empty_caches(stream_state& user) noexcept;
  [[nodiscard]] block* best_fit(stream_state& from, std::size_t bytes,
                                std::size_t alignment) const noexcept;
  /// Of what `user` gave back and what is idle.
  [[nodiscard]] block* best_fit_for(stream_state& user, std::size_t bytes,
                                    std::size_t alignment) noexcept;
  /// Makes [at, at + bytes) of a free block busy; what is left of the block stays free.
  block& take(block& from, std::size_t at, std::size_t bytes) noexcept;
  /// Makes all of it busy.
  void take_whole(block& from) noexcept;
  void make_used(block& taken, stream_state& user) noexcept;
  [[nodiscard]] bool take_back(stream_state& user, std::size_t offset, std::size_t bytes) noexcept;
  /// Puts a block that is in no tree among the free ones of its owner, joined with neighbours.
  void make_free(block& loose) noexcept;
  void make_unmapped(block& loose) noexcept;

  memory_backend& memory_;
  fence_source& order_;
  const std::uintptr_t base_;

  // Tells what a thread remembers of this block_allocator from what it remembers of others, and of
  // times before a stream was forgotten.
  std::atomic<std::uint64_t> serial_{next_serial()};

  block_map small_blocks_;

  std::mutex slow_path_mutex_;
  std::list<old_address> aliases_;  // guarded by slow_path_mutex_
  // Requests that want that lock: a trim lets them go first, which the lock itself does not.
  std::atomic<int> waiting_slow_paths_{0};

  std::mutex state_mutex_;
  address_space space_;
  std::deque<stream_state> states_;
  // The first of them, which is found without the books.
  stream_state& idle_{states_.emplace_back(stream_ref::legacy_default(), 0)};
  chunk_map chunks_;
  std::uint64_t next_chunk_ = 0;
  unsigned growths_in_a_row_ = 0;  // with nothing freed between them
  std::size_t limit_ = static_cast<std::size_t>(-1);
  pool_reuse reuse_;
  pool_counters counters_;
};

}  // namespace hipvmm::mr::pool

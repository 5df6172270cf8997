// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/mr/pool_statistics.hpp>
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "core/ranked_mutex.hpp"
#include "mr/pool/allocator/block_index.hpp"
#include "mr/pool/allocator/small_blocks.hpp"
#include "mr/pool/allocator/stream_timeline.hpp"
#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

/// State shared by the paths of a block allocator. There are two locks, taken in this order:
///
/// - `slow_path_mutex` guards `memory`, the fences of states, and both lists of addresses to be
///   unmapped. It is held for planning and for HIP calls that do not wait for the GPU.
/// - `state_mutex` guards `index`, `streams` except their fences, and the numbers declared after
///   them. It is held for steps in trees.
///
/// Long work and waits hold neither lock: the blocks involved are busy, and no other thread touches
/// busy blocks.
struct allocator_state {
  using state_lock = stream_timeline::state_lock;

  /// An old address of a chunk that has moved, which work submitted before may still use.
  struct old_address {
    block* addresses;     // busy
    std::uint64_t order;  // of the chunk
    stream_state* owner;  // unmapped when this one has passed `epoch`
    std::uint64_t epoch;
  };
  /// Memory that was detached from the backend and is still mapped.
  struct unmapping {
    std::unique_ptr<detached> what;
    block* addresses;         // busy
    std::size_t chunk_bytes;  // 0: an old address, whose chunk stays
    bool is_released = false;
  };

  allocator_state(memory_backend& backend, fence_source& fences, std::uintptr_t base)
      : memory{backend},
        start{base},
        small_blocks{backend.address_bytes()},
        streams{fences, state_mutex},
        index{backend.address_bytes(), base, streams.idle()} {}
  /// The trees unlink the blocks, which are destroyed first.
  ~allocator_state() {
    for (stream_state& each : streams.states()) each.free().clear();
  }
  allocator_state(const allocator_state&) = delete;
  allocator_state& operator=(const allocator_state&) = delete;

  memory_backend& memory;
  std::atomic<std::uintptr_t> start;  // address of offset 0; changes only while no block is used
  // Of the pool's events; set before the first request.
  detail::event_origin events{memory_event_source::pool, 0, -1};
  block_map small_blocks;  // uses atomics, no lock
  // Requests for which only a refusal is left: while there are any, caches keep nothing.
  std::atomic<int> last_resorts{0};
  // Threads that hold blocks between a cache and the index, where no request finds them.
  std::atomic<int> carriers{0};

  detail::ranked_mutex slow_path_mutex{detail::lock_rank::pool_slow_path};
  // Work done without that lock during a thread's turn, oldest first, and when any of it ends.
  // Blocks may be busy until then.
  struct absence : boost::intrusive::list_base_hook<> {
    std::uint64_t number = 0;
  };
  boost::intrusive::list<absence> absences;
  std::uint64_t last_absence = 0;
  std::condition_variable_any absence_ended;
  // Requests that wait for that lock: maintenance lets them go first, because the lock itself does
  // not.
  std::atomic<int> waiting_slow_paths{0};
  std::list<old_address> old_addresses;
  std::list<unmapping> refused;             // by HIP: tried again
  std::atomic<std::size_t> left_mapped{0};  // elements of both lists
  std::atomic<std::size_t> to_unmap{0};     // elements of the first, which should be unmapped

  detail::ranked_mutex state_mutex{detail::lock_rank::pool_state};
  stream_timeline streams;
  block_index index;
  std::size_t limit = static_cast<std::size_t>(-1);
  std::size_t largest_chunk = static_cast<std::size_t>(-1);
  std::size_t planned_bytes = 0;  // that slow paths are about to create
  pool_reuse reuse;
  unsigned growths_in_a_row = 0;  // with nothing freed between them
  std::array<std::uint64_t, pool_source_count> served{};
  std::uint64_t chunks_created = 0;
  std::uint64_t chunks_moved = 0;
  // Set while the memory sleeps: what a request is told.
  const std::string* refusal = nullptr;

  /// Pre: the state lock is held. Throws: std::logic_error while the memory sleeps.
  void require_awake() const {
    if (refusal != nullptr) [[unlikely]]
      throw std::logic_error{*refusal};
  }
  /// Pre: the slow-path lock is held.
  void note_left_mapped() noexcept {
    left_mapped.store(old_addresses.size() + refused.size(), std::memory_order_relaxed);
    to_unmap.store(old_addresses.size(), std::memory_order_relaxed);
  }
  void report_event(memory_event_kind kind, std::size_t offset, std::size_t bytes) const noexcept {
    const std::uintptr_t first = start.load(std::memory_order_relaxed);
    detail::report_event(events, kind,
                         {.address = first == 0 ? 0 : first + offset, .bytes = bytes});
  }
  void count_served(pool_source by) noexcept { ++served[static_cast<std::size_t>(by)]; }
};

/// Its thread holds blocks between a cache and the index while this object lives.
class block_carrier {
 public:
  explicit block_carrier(allocator_state& all) noexcept : carriers_{all.carriers} { ++carriers_; }
  ~block_carrier() { --carriers_; }
  block_carrier(const block_carrier&) = delete;
  block_carrier& operator=(const block_carrier&) = delete;

 private:
  std::atomic<int>& carriers_;
};

/// One thread's turn on the slow path. Failures and events during the turn are reported after it,
/// because an error handler and a callback may use the pool.
class slow_path_turn {
 public:
  explicit slow_path_turn(allocator_state& all)
      : all_{all}, redirect_{reports_}, lock_{all.slow_path_mutex, std::defer_lock} {
    ++all_.waiting_slow_paths;
    lock_.lock();
    --all_.waiting_slow_paths;
  }

  /// Runs `work`, which may wait for the GPU, without the lock, so that other threads can have
  /// their turns.
  template <typename Work>
  void without_lock(Work work) {
    ++times_away_;
    const absent away{*this};
    work();
  }
  /// How many times the turn released the lock.
  [[nodiscard]] unsigned times_away() const noexcept { return times_away_; }
  /// Whether other threads work without the lock.
  [[nodiscard]] bool are_others_away() const noexcept { return !all_.absences.empty(); }
  /// Waits until all work that other threads do without the lock at this moment has ended.
  void wait_for_others() {
    const std::uint64_t newest = all_.last_absence;
    all_.absence_ended.wait(
        lock_, [&] { return all_.absences.empty() || all_.absences.front().number > newest; });
  }

 private:
  struct absent {
    slow_path_turn& turn;
    allocator_state::absence place;
    explicit absent(slow_path_turn& one) : turn{one} {
      place.number = ++turn.all_.last_absence;
      turn.all_.absences.push_back(place);
      turn.lock_.unlock();
    }
    ~absent() {
      turn.lock_.lock();
      turn.all_.absences.erase(turn.all_.absences.iterator_to(place));
      turn.all_.absence_ended.notify_all();
    }
    absent(const absent&) = delete;
    absent& operator=(const absent&) = delete;
  };

  allocator_state& all_;
  detail::held_reports reports_;
  detail::reports_wait redirect_;
  detail::events_wait events_;
  std::unique_lock<detail::ranked_mutex> lock_;
  unsigned times_away_ = 0;
};

}  // namespace hipvmm::mr::pool

// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "core/error.hpp"
#include "core/observers/memory_events.hpp"
#include "core/ranked_mutex.hpp"
#include "mr/pool/allocator/block.hpp"
#include "mr/pool/allocator/stream_timeline.hpp"
#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

struct backing_turns {
  // The slow-path lock: held for planning and for HIP calls that do not wait for the GPU.
  detail::ranked_mutex mutex{detail::lock_rank::pool_slow_path};
  // The work of a turn without the lock. Its blocks may be busy until it ends.
  struct unlocked_period : boost::intrusive::list_base_hook<> {
    std::uint64_t number = 0;
    // Bytes of chunks that the work unmaps, which count as held until it ends; nullopt: it unmaps
    // nothing.
    std::optional<std::size_t> unmapped_bytes;
    [[nodiscard]] bool unmaps() const noexcept { return unmapped_bytes.has_value(); }
  };
  boost::intrusive::list<unlocked_period> unlocked_periods;
  std::uint64_t last_unlocked_period = 0;
  std::condition_variable_any unlocked_period_ended;
  // Threads that wait for the lock, which is not fair, so trims let them go first.
  std::atomic<int> waiting{0};
};

/// The slow-path lock guards all but the atomic number.
struct pool_backing {
  /// Earlier work may still use it.
  struct old_mapping {
    block* addresses;     // leaving
    std::uint64_t order;  // of the chunk
    stream_state* owner;  // unmapped when this one has passed `epoch`
    std::uint64_t epoch;
  };
  struct unmap_record {
    std::unique_ptr<pending_release> what;
    block* addresses;         // busy
    std::size_t chunk_bytes;  // 0: only an old address
    bool is_released = false;
  };

  explicit pool_backing(memory_backend& backend) : memory{backend} {}

  memory_backend& memory;
  backing_turns turns;
  std::list<old_mapping> old_mappings;
  std::list<unmap_record> refused;       // by HIP: tried again
  std::atomic<std::size_t> to_unmap{0};  // size of `old_mappings`

  /// Pre: the slow-path lock is held.
  void note_old_mappings() noexcept {
    to_unmap.store(old_mappings.size(), std::memory_order_relaxed);
  }
};

/// One thread's turn on the slow path. Failures and events are reported after it, because handlers
/// may use the pool.
class backing_turn {
 public:
  explicit backing_turn(backing_turns& turns)
      : turns_{turns}, redirect_{reports_}, lock_{turns.mutex, std::defer_lock} {
    ++turns_.waiting;
    lock_.lock();
    --turns_.waiting;
  }

  /// Lets other threads have turns. `unmapped_bytes`: as in unlocked_period.
  template <typename Work>
  void without_lock(Work work, std::optional<std::size_t> unmapped_bytes = {}) {
    ++times_away_;
    const absent away{*this, unmapped_bytes};
    work();
  }
  /// Waits without the lock; false if a capture forbids that.
  [[nodiscard]] bool wait_for(const fence& point) {
    bool passed = false;
    without_lock([&] { passed = stream_timeline::wait_for(point); });
    return passed;
  }
  [[nodiscard]] unsigned times_away() const noexcept { return times_away_; }
  [[nodiscard]] bool are_others_away() const noexcept { return !turns_.unlocked_periods.empty(); }
  [[nodiscard]] bool do_others_unmap() const noexcept {
    return std::ranges::any_of(turns_.unlocked_periods, &backing_turns::unlocked_period::unmaps);
  }
  [[nodiscard]] bool do_others_wait() const noexcept {
    return !std::ranges::all_of(turns_.unlocked_periods, &backing_turns::unlocked_period::unmaps);
  }
  /// Bytes that other threads are unmapping, which still count as held.
  [[nodiscard]] std::size_t leaving_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const auto& each : turns_.unlocked_periods) bytes += each.unmapped_bytes.value_or(0);
    return bytes;
  }
  /// Waits until all present work of other threads without the lock has ended.
  void wait_for_others() {
    const std::uint64_t newest = turns_.last_unlocked_period;
    turns_.unlocked_period_ended.wait(lock_, [&] {
      return turns_.unlocked_periods.empty() || turns_.unlocked_periods.front().number > newest;
    });
  }

 private:
  struct absent {
    backing_turn& turn;
    backing_turns::unlocked_period place;
    absent(backing_turn& one, std::optional<std::size_t> unmapped_bytes) : turn{one} {
      place.number = ++turn.turns_.last_unlocked_period;
      place.unmapped_bytes = unmapped_bytes;
      turn.turns_.unlocked_periods.push_back(place);
      turn.lock_.unlock();
    }
    ~absent() {
      turn.lock_.lock();
      turn.turns_.unlocked_periods.erase(turn.turns_.unlocked_periods.iterator_to(place));
      turn.turns_.unlocked_period_ended.notify_all();
    }
    absent& operator=(absent&&) = delete;
  };

  backing_turns& turns_;
  detail::held_reports reports_;
  detail::reports_wait redirect_;
  detail::events_wait events_;
  std::unique_lock<detail::ranked_mutex> lock_;
  unsigned times_away_ = 0;
};

}  // namespace hipvmm::mr::pool

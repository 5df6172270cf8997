// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "core/ranked_mutex.hpp"
#include "mr/pool/allocator/stream_state.hpp"
#include "mr/pool/backend/backend.hpp"

namespace hipvmm::mr::pool {

/// Returns a number that identifies the calling thread, never 0.
[[nodiscard]] std::uint64_t this_thread_number() noexcept;

/// The states of all streams that a pool serves, and the fences that show how far they have come.
class stream_timeline {
 public:
  using state_lock = std::unique_lock<detail::ranked_mutex>;
  using state_list = std::vector<stream_state*>;

  /// `state_mutex` guards the states.
  stream_timeline(fence_source& source, detail::ranked_mutex& state_mutex);

  [[nodiscard]] stream_state& idle() noexcept { return idle_; }
  [[nodiscard]] stream_state& all_streams() noexcept { return all_streams_; }

  // Called without the state lock.
  /// The state of `stream`, made at first use; `thread` as for stream_state.
  /// Throws: std::bad_alloc.
  [[nodiscard]] stream_state& state_of(stream_ref stream, std::uint64_t thread);
  /// The state of `stream` for the calling thread; nullptr when there is none.
  [[nodiscard]] stream_state* find(stream_ref stream);
  /// All states that are in use or forgotten. Throws: std::bad_alloc.
  [[nodiscard]] state_list all();

  /// Makes the newest fence of a stream that may vanish, in a call that was given the stream.
  /// Returns false while it is captured. Throws: as fence_source::fence_for.
  [[nodiscard]] bool renew_fence(stream_state& whose);

  // Called with the slow-path lock and without the state lock.
  // `caller`: the state of the stream passed to this call of the pool, which therefore still
  // exists; nullptr without a stream.
  /// Makes a fence that covers all memory freed in `whose` so far; nullptr while the stream is
  /// captured. Throws: as fence_source::fence_for.
  [[nodiscard]] std::shared_ptr<const fence> make_fence(stream_state& whose,
                                                        const stream_state* caller);
  /// Returns a fence that covers `epoch` of `whose`; nullopt while the stream is captured, or when
  /// it ended without a fence.
  [[nodiscard]] std::optional<stream_state::recorded_fence> fence_for(stream_state& whose,
                                                                      std::uint64_t epoch,
                                                                      const stream_state* caller);
  /// Makes a fence for each state that lacks one. Streams that cannot have one are added to
  /// `without`, if not null.
  void record_missing_fences(const state_list& states, const stream_state* caller,
                             std::vector<const stream_state*>* without = nullptr);
  /// Records which epochs have passed. A fence that turns out to be in a capture is dropped, which
  /// leaves its epoch without one.
  void poll(stream_state& whose);
  /// Adds a fence that covers everything up to `epoch`. Records the epochs that have passed. When
  /// there are many fences, drops every other one, so that they stay few.
  void add_fence(stream_state& whose, std::shared_ptr<const fence> made, std::uint64_t epoch);
  /// Forgets the stream of `whose`: no more fences are made in it. `recorded`, if any, covers all
  /// memory freed in it.
  void forget(stream_state& whose, std::shared_ptr<const fence> recorded);
  /// Drops the fences of a forgotten stream if they may not be used after its end.
  void end_fences(stream_state& whose);
  [[nodiscard]] fence_source& source() noexcept { return source_; }
  /// Waits for a fence, or for all work; false if a capture forbids that. Called without a lock.
  template <typename Point>
  [[nodiscard]] static bool wait_for(Point& point) {
    try {
      point.synchronize();
      return true;
    } catch (const hip_error& error) {
      // A wait for a whole device is refused while any of its streams is captured.
      if (!is_beside_capture(error)) throw;
      return false;
    }
  }

  // Called with the state lock.
  [[nodiscard]] std::deque<stream_state>& states() noexcept { return states_; }
  /// The state of the stream with that id; nullptr when it is gone.
  [[nodiscard]] stream_state* with_id(std::size_t id) noexcept;

 private:
  [[nodiscard]] static bool is_beside_capture(const hip_error& error) noexcept;
  [[nodiscard]] std::size_t next_id() noexcept;
  /// Ends the current epoch of `whose` with a new fence; nullopt as for fence_for().
  [[nodiscard]] std::optional<stream_state::recorded_fence> end_epoch(stream_state& whose,
                                                                      const stream_state* caller);

  fence_source& source_;
  detail::ranked_mutex& state_mutex_;
  std::deque<stream_state> states_;
  std::size_t last_id_ = 0;
  stream_state& idle_;
  stream_state& all_streams_;
};

}  // namespace hipvmm::mr::pool

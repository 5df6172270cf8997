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

/// Identifies the calling thread; never 0.
[[nodiscard]] std::uint64_t this_thread_number() noexcept;

/// The states of all streams that a pool serves. `state_mutex` guards them. Functions that make
/// fences throw as the functions of fence_source: hip_error, std::bad_alloc.
class stream_timeline {
 public:
  using state_lock = std::unique_lock<detail::ranked_mutex>;
  using state_list = std::vector<stream_state*>;

  stream_timeline(fence_source& source, detail::ranked_mutex& state_mutex);

  [[nodiscard]] stream_state& idle() noexcept { return idle_; }
  [[nodiscard]] stream_state& all_streams() noexcept { return all_streams_; }

  // Called without the state lock.
  /// Makes the state at first use; `thread` as for stream_state. Throws: std::bad_alloc.
  [[nodiscard]] stream_state& state_of(stream_ref stream, std::uint64_t thread);
  /// The state of `stream` for the calling thread; nullptr if there is none.
  [[nodiscard]] stream_state* find(stream_ref stream);
  /// All states that are in use or forgotten. Throws: std::bad_alloc.
  [[nodiscard]] state_list all();

  /// Makes the newest fence, in a call that was given the stream; false while it is captured.
  [[nodiscard]] bool renew_fence(stream_state& whose);

  // Called with the slow-path lock and without the state lock. `caller`: the state of the stream
  // that this call of the pool was given, which therefore exists; nullptr without a stream.
  /// Makes a fence that covers all memory freed so far; nullptr while the stream is captured.
  [[nodiscard]] std::shared_ptr<const fence> make_fence(stream_state& whose,
                                                        const stream_state* caller);
  /// Finds or makes a fence that covers `epoch`; nullopt while the stream is captured, or if the
  /// stream was forgotten and no fence covers `epoch`.
  [[nodiscard]] std::optional<stream_state::recorded_fence> fence_for(stream_state& whose,
                                                                      std::uint64_t epoch,
                                                                      const stream_state* caller);
  /// For each state that lacks one and has fewer than 16. Adds streams that cannot have one to
  /// `without`, if not null.
  void record_missing_fences(const state_list& states, const stream_state* caller,
                             std::vector<const stream_state*>* without = nullptr);
  /// Records which epochs have passed. Drops a fence that turns out to be in a capture.
  void poll(stream_state& whose);
  /// Polls, and adds a fence of all up to `epoch`. Of many fences, drops every other one.
  void add_fence(stream_state& whose, std::shared_ptr<const fence> made, std::uint64_t epoch);
  /// No more fences are made in the stream. `recorded`, if any, covers all memory freed in it.
  void forget(stream_state& whose, std::shared_ptr<const fence> recorded);
  /// Drops the fences of a forgotten stream if they may not be used after its end.
  void end_fences(stream_state& whose);
  [[nodiscard]] fence_source& source() noexcept { return source_; }
  /// Waits for a fence, or all work of a source, without a lock; false if a capture forbids that.
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
  /// nullptr if no state is that stream's any more. The stream may have been forgotten.
  [[nodiscard]] stream_state* with_id(std::size_t id) noexcept;

 private:
  [[nodiscard]] static bool is_beside_capture(const hip_error& error) noexcept;
  [[nodiscard]] std::size_t next_id() noexcept;
  /// Ends the current epoch with a new fence; nullopt as fence_for().
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

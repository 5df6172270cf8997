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

/// Never 0.
[[nodiscard]] std::uint64_t this_thread_number() noexcept;

/// The states of all streams of a pool, guarded by `state_mutex`. Making a fence throws hip_error
/// and std::bad_alloc.
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
  /// For the calling thread; nullptr if there is none.
  [[nodiscard]] stream_state* find(stream_ref stream);
  /// Those in use or forgotten. Throws: std::bad_alloc.
  [[nodiscard]] state_list all();

  /// Pre: the call was given the stream. Returns false while it is captured.
  [[nodiscard]] bool renew_fence(stream_state& whose);

  // With the slow-path lock, without the state lock. `caller`: the state of the stream that the
  // call was given, which still exists; nullptr without one.
  /// Covers all memory freed so far; nullptr while the stream is captured.
  [[nodiscard]] std::shared_ptr<const fence> make_fence(stream_state& whose,
                                                        const stream_state* caller);
  /// A present or new fence that covers `epoch`; nullopt while the stream is captured, or if the
  /// stream was forgotten without one.
  [[nodiscard]] std::optional<stream_state::recorded_fence> fence_for(stream_state& whose,
                                                                      std::uint64_t epoch,
                                                                      const stream_state* caller);
  /// For each state that lacks one and has fewer than 16. Adds those that get none to `without`.
  void record_missing_fences(const state_list& states, const stream_state* caller,
                             std::vector<const stream_state*>* without = nullptr);
  /// Records which epochs have passed. Drops fences that are part of a capture.
  void poll(stream_state& whose);
  /// Polls, and adds a fence for `epoch`. Of many fences, drops every other one.
  void add_fence(stream_state& whose, std::shared_ptr<const fence> made, std::uint64_t epoch);
  /// Ends the making of fences in the stream. `recorded`, if any, covers all memory freed in it.
  void forget(stream_state& whose, std::shared_ptr<const fence> recorded);
  /// Drops the fences of a forgotten stream if they may not be used after its end.
  void end_fences(stream_state& whose);
  [[nodiscard]] fence_source& source() noexcept { return source_; }
  /// Pre: no lock is held. Returns false if a capture forbids the wait.
  template <typename Point>
  [[nodiscard]] static bool wait_for(Point& point) {
    try {
      point.synchronize();
      return true;
    } catch (const hip_error& error) {
      // HIP refuses to wait for a device that has a captured stream.
      if (!is_beside_capture(error)) throw;
      return false;
    }
  }

  // Called with the state lock.
  [[nodiscard]] std::deque<stream_state>& states() noexcept { return states_; }
  /// nullptr if the state has another stream by now. The stream may be forgotten.
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

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/handle_table.hpp"
#include "base/settings.hpp"
#include "machine/device_preferences.hpp"
#include "memory/address_map.hpp"
#include "memory/chunk.hpp"
#include "memory/device_memory.hpp"
#include "memory/device_places.hpp"
#include "memory/peer_table.hpp"
#include "memory/transfer.hpp"
#include "race/race_checker.hpp"
#include "stream/event_state.hpp"
#include "stream/stream_owner.hpp"
#include "stream/stream_set.hpp"

namespace hipvmm::host_provider {

class capture_set;
class graph_set;
class mem_pool_set;

struct device_state {
  device_state(stream_owner& owner, int id, const settings& from)
      : memory{from.device_bytes, from.visible[static_cast<std::size_t>(id)]},
        streams{owner, id},
        used{id == 0} {}

  device_memory memory;
  stream_set streams;
  device_preferences preferences;
  /// hipSetDevice has named it, or threads begin with it: then CUDA has made its primary context.
  std::atomic<bool> used;
};

/// The state of HIP in this process. Made by the first call and never destroyed, so that calls
/// while the process ends still work.
class runtime final : public stream_owner {
 public:
  static runtime& get();
  /// Null before the first call.
  static runtime* existing() noexcept;
  runtime& operator=(runtime&&) = delete;

  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] const settings& configuration() const noexcept { return configuration_; }
  [[nodiscard]] const profile& rules() const noexcept { return *configuration_.like; }
  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(devices_.size()); }
  [[nodiscard]] bool has_device(int id) const noexcept { return id >= 0 && id < device_count(); }
  [[nodiscard]] const device_places& places() const noexcept { return places_; }
  /// Throws: failure with `code` when there is no such device.
  device_state& device(int id, hipError_t code = hipErrorInvalidDevice);
  [[nodiscard]] device_memory& host_memory() noexcept { return host_memory_; }
  [[nodiscard]] bool linked(int a, int b) const noexcept;
  [[nodiscard]] peer_table& peers() noexcept { return peers_; }
  [[nodiscard]] device_access access() noexcept { return {addresses_, peers_}; }

  [[nodiscard]] address_map& addresses() noexcept { return addresses_; }
  [[nodiscard]] const address_map& addresses() const noexcept { return addresses_; }
  [[nodiscard]] chunk_table& chunks() noexcept { return chunks_; }
  [[nodiscard]] handle_table<stream_queue>& streams() noexcept { return streams_; }
  [[nodiscard]] handle_table<event_state>& events() noexcept { return events_; }
  [[nodiscard]] mem_pool_set& pools() noexcept { return *pools_; }
  [[nodiscard]] capture_set& captures() noexcept { return *captures_; }
  [[nodiscard]] graph_set& graphs() noexcept { return *graphs_; }
  /// Null unless HIPVMM_HOST_CHECK asks for it.
  [[nodiscard]] race_checker* checker() const noexcept { return checker_.get(); }
  [[nodiscard]] stream_observer* observer() const noexcept override { return checker_.get(); }

  /// Null and per-thread streams are those of the current device. Throws: failure with `code`, or
  /// without it the profile's code, for a stale or forged handle.
  std::shared_ptr<stream_queue> stream(hipStream_t handle, hipError_t code);
  std::shared_ptr<stream_queue> stream(hipStream_t handle) {
    return stream(handle, rules().destroyed_stream);
  }
  [[nodiscard]] bool has_stream(hipStream_t handle) const;
  void note_stale_stream() noexcept { stale_stream_calls_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t stale_stream_calls() const noexcept {
    return stale_stream_calls_.load(std::memory_order_relaxed);
  }
  /// Throws: failure with hipErrorInvalidHandle for null, and for a stale or forged event; crash
  /// for the latter if the runtime follows it.
  std::shared_ptr<event_state> event(hipEvent_t handle);
  using stream_owner::submit;
  hipError_t submit(stream_queue& queue, std::unique_ptr<operation> work, completion how) override;
  /// Submits work even if the stream is captured, and records nothing.
  hipError_t submit_beside_capture(stream_queue& queue, std::unique_ptr<operation> work);
  [[nodiscard]] std::vector<position> ahead_of(const stream_queue& target) override;
  void forget_capture(const stream_queue& closed) override;
  void retire(stream_queue& drained) override;
  void wait_all() const;
  /// The first error that was not reported of a stream after a wait for it; for the null stream
  /// also of the blocking streams, for which it waits. All of them then count as reported.
  hipError_t take_errors(stream_queue& awaited);
  /// Ends an allocation or a registration. Pre: its users have finished.
  void end(const tracked_range& allocation);

 private:
  runtime();
  hipError_t enqueue(stream_queue& queue, std::unique_ptr<operation> work, completion how);
  ~runtime();

  settings configuration_;
  bool valid_ = false;
  std::vector<std::unique_ptr<device_state>> devices_;
  const device_places places_{configuration_.visible};
  peer_table peers_{configuration_};
  device_memory host_memory_{std::numeric_limits<std::size_t>::max()};
  address_map addresses_;
  chunk_table chunks_;
  handle_table<stream_queue> streams_{handle_kind::stream, configuration_.stream_and_event_handles};
  handle_table<event_state> events_{handle_kind::event, configuration_.stream_and_event_handles};
  std::unique_ptr<mem_pool_set> pools_;
  std::unique_ptr<graph_set> graphs_;
  std::unique_ptr<capture_set> captures_;
  std::unique_ptr<race_checker> checker_;
  std::atomic<std::uint64_t> stale_stream_calls_{0};
};

}  // namespace hipvmm::host_provider

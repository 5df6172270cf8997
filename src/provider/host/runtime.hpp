// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "address_map.hpp"
#include "chunk.hpp"
#include "device_memory.hpp"
#include "device_preferences.hpp"
#include "event_state.hpp"
#include "handle_table.hpp"
#include "order_checker.hpp"
#include "settings.hpp"
#include "stream_set.hpp"

namespace hipvmm::host_provider {

class capture_set;
class graph_set;
class mem_pool_set;

struct device_state {
  device_state(runtime& machine, int id, const settings& from)
      : memory{from.device_bytes, from.visible[static_cast<std::size_t>(id)]},
        streams{machine, id} {}

  device_memory memory;
  stream_set streams;
  /// Devices whose hipMalloc memory this one may use since hipDeviceEnablePeerAccess.
  std::atomic<device_set> peers{0};
  device_preferences preferences;
};

/// Whether the calling thread waits for the work it submits.
enum class completion { synchronous, asynchronous };

/// All there is behind HIP in this process. Made by the first call and never destroyed, so that
/// calls made while the process ends still work.
class runtime {
 public:
  static runtime& get();
  /// Null before the first call.
  static runtime* existing() noexcept;
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Whether the environment could be understood.
  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] const settings& configuration() const noexcept { return configuration_; }
  [[nodiscard]] const profile& rules() const noexcept { return *configuration_.like; }
  [[nodiscard]] int device_count() const noexcept { return static_cast<int>(devices_.size()); }
  [[nodiscard]] bool has_device(int id) const noexcept { return id >= 0 && id < device_count(); }
  /// Where a device is in the machine, which tells it from others in every process.
  [[nodiscard]] int place_of(int id) const noexcept {
    return configuration_.visible[static_cast<std::size_t>(id)];
  }
  /// The device at a place; hipInvalidDeviceId where this process has none.
  [[nodiscard]] int device_at(int place) const noexcept;
  /// The same of sets, as other processes read them.
  [[nodiscard]] device_set places_of(device_set ids) const noexcept;
  [[nodiscard]] device_set devices_at(device_set places) const noexcept;
  /// Throws: failure with `code` when there is no such device.
  device_state& device(int id, hipError_t code = hipErrorInvalidDevice);
  /// Memory of the host that chunks may be made of.
  [[nodiscard]] device_memory& host_memory() noexcept { return host_memory_; }
  [[nodiscard]] bool linked(int a, int b) const noexcept;
  [[nodiscard]] device_set peers_enabled(int id) const noexcept;

  [[nodiscard]] address_map& addresses() noexcept { return addresses_; }
  [[nodiscard]] const address_map& addresses() const noexcept { return addresses_; }
  [[nodiscard]] chunk_table& chunks() noexcept { return chunks_; }
  [[nodiscard]] handle_table<stream_queue>& streams() noexcept { return streams_; }
  [[nodiscard]] handle_table<event_state>& events() noexcept { return events_; }
  [[nodiscard]] mem_pool_set& pools() noexcept { return *pools_; }
  [[nodiscard]] capture_set& captures() noexcept { return *captures_; }
  [[nodiscard]] graph_set& graphs() noexcept { return *graphs_; }
  /// Null unless HIPVMM_HOST_CHECK asks for it.
  [[nodiscard]] order_checker* checker() const noexcept { return checker_.get(); }

  /// The stream behind a handle: null and per-thread streams are those of the current device.
  /// Throws: failure with `code` for a stale or forged one, without it with the profile's.
  std::shared_ptr<stream_queue> stream(hipStream_t handle, hipError_t code);
  std::shared_ptr<stream_queue> stream(hipStream_t handle) {
    return stream(handle, rules().destroyed_stream);
  }
  [[nodiscard]] bool has_stream(hipStream_t handle) const;
  /// Throws: failure with hipErrorInvalidHandle for null, and for a stale or forged event; crash
  /// for the latter where the runtime follows it.
  std::shared_ptr<event_state> event(hipEvent_t handle);
  /// Submits work in the order that the null stream's rules give, or records it where the stream is
  /// captured.
  hipError_t submit(stream_queue& queue, operation work, completion how);
  /// The same where the stream is captured, and nothing is recorded.
  hipError_t submit_beside_capture(stream_queue& queue, operation work);
  /// The stream takes no more work.
  void forget_capture(const stream_queue& closed);
  void retire(stream_queue& drained);
  /// Waits for all work submitted to any device so far.
  void wait_all() const;
  /// Frees an allocation, or forgets a registration, whose users have been waited for.
  void end(const region& allocation);

 private:
  runtime();
  hipError_t enqueue(stream_queue& queue, operation work, completion how);
  ~runtime();

  settings configuration_;
  bool valid_ = false;
  std::vector<std::unique_ptr<device_state>> devices_;
  device_memory host_memory_{std::numeric_limits<std::size_t>::max()};
  address_map addresses_;
  chunk_table chunks_;
  handle_table<stream_queue> streams_{handle_kind::stream, configuration_.stream_and_event_handles};
  handle_table<event_state> events_{handle_kind::event, configuration_.stream_and_event_handles};
  std::unique_ptr<mem_pool_set> pools_;
  std::unique_ptr<graph_set> graphs_;
  std::unique_ptr<capture_set> captures_;
  std::unique_ptr<order_checker> checker_;
};

}  // namespace hipvmm::host_provider

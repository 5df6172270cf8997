// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::detail {

/// Waits for a stream, also if its copies have failed. Returns false if HIP refuses the wait.
[[nodiscard]] bool waits_for(const stream& copies) noexcept;

/// Copies in several streams of each device.
class parallel_copies {
 public:
  ~parallel_copies() { static_cast<void>(drain()); }
  parallel_copies& operator=(parallel_copies&&) = delete;

  /// Throws: out_of_memory, hip_error.
  void add(device_ref device, void* to, const void* from, std::size_t bytes);
  /// In one piece. Throws: as add().
  void fill_zeros(device_ref device, void* to, std::size_t bytes);
  static constexpr std::size_t piece_bytes = std::size_t{32} << 20U;
  /// Events behind all copies since the last call. Throws: as add(); std::bad_alloc.
  [[nodiscard]] std::vector<event> mark();
  /// Waits for all copies. Throws: hip_error; then some may be running.
  void finish();
  /// As finish(), also after failures. Returns false if HIP refused a wait: copies may be running
  /// then.
  [[nodiscard]] bool drain() noexcept;
  void end_streams() noexcept;  ///< waits as drain()
  void swap(parallel_copies& other) noexcept {
    of_devices_.swap(other.of_devices_);
    std::swap(may_be_running_, other.may_be_running_);
  }

 private:
  struct copy_streams {
    std::vector<stream> all;
    std::size_t next = 0;
    std::size_t unmarked = 0;  // copies since the last mark
  };
  [[nodiscard]] const stream& next_stream(device_ref device);

  std::map<int, copy_streams> of_devices_;
  bool may_be_running_ = false;
};

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// The last changes of the process's memory of devices, numbered from 1. Thread-safe; nothing is
/// called with its lock.
class memory_change_ring {
 public:
  static constexpr std::size_t capacity = 64;

  /// Chunks, until an event of this thread explains them.
  void add_chunks(int device, std::int64_t bytes) noexcept;
  void add(const memory_event& event) noexcept;
  /// The last change of the device that is newer than number `after`, and its number.
  [[nodiscard]] std::pair<std::optional<memory_event>, std::uint64_t> last(
      device_ref device, std::uint64_t after) noexcept;
  /// Those of the device, the oldest first. Throws: std::bad_alloc.
  [[nodiscard]] std::vector<memory_event> all_of(device_ref device);

 private:
  /// The newest entry, if it is of chunks of `thread` and of the device.
  [[nodiscard]] memory_event* open_chunks(int device, std::uint64_t thread) noexcept;

  std::mutex mutex_;
  std::array<memory_event, capacity> events_{};
  std::uint64_t count_ = 0;  // so far: the number of the newest
};

}  // namespace hipvmm::detail

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

/// The process's last changes of device memory, numbered from 1. Thread-safe, by a leaf lock.
class memory_change_ring {
 public:
  static constexpr std::size_t capacity = 64;

  /// Changes of chunks; the next event of this thread replaces them.
  void add_chunks(int device, std::int64_t bytes) noexcept;
  void add(const memory_event& event) noexcept;
  /// The device's last change newer than `after`, and its number.
  [[nodiscard]] std::pair<std::optional<memory_event>, std::uint64_t> last(
      device_ref device, std::uint64_t after) noexcept;
  /// The oldest first. Throws: std::bad_alloc.
  [[nodiscard]] std::vector<memory_event> all_of(device_ref device);

 private:
  /// The newest entry, if it is chunks of the thread and device.
  [[nodiscard]] memory_event* open_chunks(int device, std::uint64_t thread) noexcept;

  std::mutex mutex_;
  std::array<memory_event, capacity> events_{};
  std::uint64_t count_ = 0;
};

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// Owns a fixed number of streams of one device. Thread-safe.
class stream_pool {
 public:
  static constexpr std::size_t default_size = 16;

  /// Uses the current device.
  explicit stream_pool(std::size_t size = default_size,
                       stream_kind kind = stream_kind::non_blocking)
      : stream_pool{device_ref::current(), size, kind} {}
  /// Throws: std::invalid_argument when `size` is zero or exceeds the address space.
  explicit stream_pool(device_ref device, std::size_t size = default_size,
                       stream_kind kind = stream_kind::non_blocking);

  /// Round-robin.
  [[nodiscard]] stream_ref get_stream() const;
  /// The stream with number `index` modulo size().
  [[nodiscard]] stream_ref get_stream(std::size_t index) const;
  [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }

 private:
  std::vector<stream> streams_;
  mutable std::atomic<std::size_t> next_{0};
};

}  // namespace hipvmm

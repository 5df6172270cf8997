// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/capture_mode.hpp"

namespace hipvmm::detail {

[[nodiscard]] bool is_done_without_notify(stream_ref stream);

[[nodiscard]] inline bool is_captured(stream_ref stream) { return is_captured(stream.get()); }

/// Throws: std::invalid_argument, for `function`, if `stream` is being captured.
void require_not_captured(const char* function, stream_ref stream);

/// Throws: as device_ref::current().
[[nodiscard]] std::optional<device_ref> device_of_stream(stream_ref stream);

/// Scope around hipStreamDestroy, if waits for a device miss streams that end. Waits for the
/// stream, or if it cannot, as in a capture, keeps waits for the device out from begin() on.
class stream_end {
 public:
  stream_end(stream_ref stream, device_ref device) noexcept;
  void begin() noexcept;

 private:
  device_ref device_;
  bool is_missed_by_waits_;
  std::unique_lock<std::shared_mutex> no_wait_;
};

}  // namespace hipvmm::detail

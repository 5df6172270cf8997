// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::mr {

/// Whether memory freed in one stream may serve another; as in HIP's pools (hipMemPoolAttr).
struct pool_reuse {
  /// Reuse when the requesting stream is known to be ordered after the free: the pool made it wait,
  /// it waited for an event (stream_ref::wait, event::record), or note_stream_wait() declared it.
  bool follow_event_dependencies = true;
  /// Reuse when the work up to the free has completed.
  bool allow_opportunistic = true;
  /// Make the requesting stream wait for the free instead of allocating memory from the device.
  bool allow_internal_dependencies = true;

  friend bool operator==(const pool_reuse& a, const pool_reuse& b) noexcept {
    return a.follow_event_dependencies == b.follow_event_dependencies &&
           a.allow_opportunistic == b.allow_opportunistic &&
           a.allow_internal_dependencies == b.allow_internal_dependencies;
  }
};

}  // namespace hipvmm::mr

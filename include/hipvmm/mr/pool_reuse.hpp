// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::mr {

/// How memory that one stream gave back may serve another one; names and meaning are those of HIP's
/// pools (hipMemPoolAttr).
struct pool_reuse {
  /// The other stream is known to come behind: the pool made it wait, or it waited for an event
  /// (stream_ref::wait, event::record), or note_stream_wait() said so.
  bool follow_event_dependencies = true;
  /// The point where the memory was given back has passed.
  bool allow_opportunistic = true;
  /// The other stream is made to wait for that point, rather than memory be taken from the device.
  bool allow_internal_dependencies = true;

  friend bool operator==(const pool_reuse& a, const pool_reuse& b) noexcept {
    return a.follow_event_dependencies == b.follow_event_dependencies &&
           a.allow_opportunistic == b.allow_opportunistic &&
           a.allow_internal_dependencies == b.allow_internal_dependencies;
  }
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/region/sleep/suspend_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/vmm/access.hpp>

namespace hipvmm {

struct evictable_options {
  int priority = 0;  ///< lower ones are evicted first; of one priority, the least recently used
  /// Names no stream. With pinned_kept, an eviction copies nothing if nothing was written since the
  /// last return.
  suspend_options storage{sleep_storage::pinned_kept};
  /// If set, evictions copy nothing, and `fill` writes the contents by work in the stream after
  /// each return. It may make calls that need the memory; use(), done() and prefetch() of this
  /// evictable throw std::logic_error in it.
  std::function<void(stream_ref)> fill = {};
};

struct evictable_statistics {
  std::uint64_t evictions;
  std::uint64_t returns;
  std::size_t evicted_bytes;
  std::size_t returned_bytes;
  // A request that gets nothing asks again, and may count twice.
  std::uint64_t refused_in_use;      ///< requests that met memory in use
  std::uint64_t refused_by_failure;  ///< requests that met memory that could not sleep
  std::string reason;                ///< the last such failure
};

/// Memory of a tag on one device. It leaves the device if a request of this process, or of another
/// process of its budget, lacks memory there, and returns to the same addresses for the next use.
/// Idle memory of other objects leaves first. None leaves if all of it together would not be enough
/// for the request.
/// - Calls that need the memory (commit, append, allocate, copies to the host), and work on it,
///   belong between use() and done(); elsewhere the calls throw std::logic_error. Other calls wait
///   for an eviction under way.
/// - No eviction waits for work: memory in use stays, until the work before each done() has ended.
///   The first eviction pins memory for `storage`, unless prepare_suspend() did.
/// - Memory that cannot sleep (suspend()) stays; statistics() has the reason.
/// - The program may also suspend() and resume() the tag.
/// - Thread-safe, except for moves. In a child of fork() all functions throw unsupported.
class evictable {
 public:
  /// All memory of the tag is on `device`. Waits for all work that may use it.
  /// Throws: std::invalid_argument if there is no such device or the tag has an evictable, and for
  /// a stream in `storage`; hip_error; std::bad_alloc.
  evictable(const memory_tag& tag, device_ref device, evictable_options options = {});
  ~evictable();  ///< the tag stays awake or asleep
  evictable(evictable&& other) noexcept;
  evictable& operator=(evictable&& other) noexcept;

  /// Brings the memory back, for work in `stream` from now until done(). `right` may be
  /// access_right::read if that work writes nothing. Several uses may be open. Evicts others if the
  /// device lacks memory, and waits for the work of their ended uses if it must. First lets another
  /// request take this memory if one waits for it, for a second at most.
  /// Throws (use() may be tried again): std::invalid_argument while `stream` is captured; as
  /// resume(), then the tag sleeps with its contents; as `fill`, then the memory is back without
  /// contents.
  void use(stream_ref stream, access_right right = access_right::read_write);
  /// Ends a use. Pre: `stream`, of device(), orders all work of the use before this point.
  /// Throws: std::logic_error without a use; std::invalid_argument while `stream` is captured;
  /// hip_error, then the use is still open.
  void done(stream_ref stream);
  /// Brings the memory back for a later use(). Waits for no work. Throws: as use().
  void prefetch(stream_ref stream);

  [[nodiscard]] const memory_tag& tag() const;
  [[nodiscard]] device_ref device() const;
  [[nodiscard]] evictable_statistics statistics() const;

 private:
  struct state;
  [[nodiscard]] state& live() const;
  std::unique_ptr<state> state_;
};

class scoped_use {
 public:
  /// Throws: as evictable::use().
  scoped_use(evictable& of, stream_ref stream, access_right right = access_right::read_write)
      : of_{of}, stream_{stream} {
    of_.use(stream_, right);
  }
  /// Calls done(). If it fails, the error handler gets that, and the use stays open.
  ~scoped_use();
  scoped_use& operator=(scoped_use&&) = delete;

 private:
  evictable& of_;
  stream_ref stream_;
};

}  // namespace hipvmm

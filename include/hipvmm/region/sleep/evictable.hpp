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
  /// Lower ones are evicted first, and of one priority the least recently used.
  int priority = 0;
  /// The place of evicted contents, and ranges with another action; names no stream. `pinned_kept`
  /// keeps a copy: if nothing was written since the last return, an eviction copies nothing.
  suspend_options storage{sleep_storage::pinned_kept};
  /// If set, evictions keep nothing, and `fill` writes the contents by work in the stream each time
  /// memory has returned. It may make calls that need the memory; use(), done() and prefetch() of
  /// this evictable throw std::logic_error in it.
  std::function<void(stream_ref)> fill = {};
};

struct evictable_statistics {
  std::uint64_t evictions;
  std::uint64_t returns;
  std::size_t evicted_bytes;   ///< of all evictions
  std::size_t returned_bytes;  ///< of all returns
  // A request that got nothing asks again, and may count twice.
  std::uint64_t refused_in_use;      ///< times that requests met memory in use
  std::uint64_t refused_by_failure;  ///< times that requests met memory that could not sleep
  std::string reason;                ///< the last such failure
};

/// Memory of a tag that leaves its device if a request of this process, or another process of its
/// budget, lacks memory there, and returns to the same addresses when it is used. Idle memory of
/// other objects goes first, and nothing goes for a request that would fail even if all went.
/// - Calls that need the memory (commit, append, allocate, copies to the host) and work that uses
///   it are between use() and done(): else such calls throw std::logic_error. Other calls wait for
///   an eviction under way in another thread.
/// - No eviction waits for work: memory goes only if all work before each done() has ended. The
///   first eviction pins memory for `storage`, unless prepare_suspend() did.
/// - Memory that cannot sleep (suspend()) stays; statistics() has the reason.
/// - suspend() and resume() of the tag may be called too; use() wakes it.
/// - Thread-safe, but for moves. In a child of fork() all throw unsupported.
class evictable {
 public:
  /// `device` has the memory of the tag. Waits for all work that may use it. Throws:
  /// std::invalid_argument if there is no such device or the tag has an evictable, and for a stream
  /// in `storage`; hip_error; std::bad_alloc.
  evictable(const memory_tag& tag, device_ref device, evictable_options options = {});
  /// Leaves the memory awake, or asleep until resume() of its tag.
  ~evictable();
  evictable(evictable&& other) noexcept;
  evictable& operator=(evictable&& other) noexcept;

  /// Brings the memory back; work in `stream` from now on may use it, until done(). `right`: read
  /// promises that the work writes nothing. Several uses may be open. If memory is lacking, other
  /// evictables leave; if those without work do not suffice, waits for the work of ended uses. If
  /// another request waits for this memory, lets it go first, for a second at most.
  /// Throws (use() may be tried again): std::invalid_argument while `stream` is captured: begin the
  /// use before the capture; as resume(), then it is asleep with its contents; as `fill`, then the
  /// memory is back without its contents.
  void use(stream_ref stream, access_right right = access_right::read_write);
  /// Ends a use: all its work is ordered before this point in `stream`, of device(). Throws:
  /// std::logic_error without a use; std::invalid_argument while `stream` is captured; hip_error,
  /// then the use is still open.
  void done(stream_ref stream);
  /// Brings the memory back as use() and done(), but waits for no work.
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
  /// Calls done(). The error handler gets its failure, after which the memory is never evicted.
  ~scoped_use();
  scoped_use& operator=(scoped_use&&) = delete;

 private:
  evictable& of_;
  stream_ref stream_;
};

}  // namespace hipvmm

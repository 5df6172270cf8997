// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// The action of suspend() for bytes.
enum class keep {
  contents,  ///< copies them to the host; resume() copies them back
  nothing,   ///< drops them: after resume() the bytes are undefined
  zeros,     ///< drops them: after resume() the bytes are zero
  /// A chunk stays mapped while the tag sleeps, and work may use it, if all of its bytes are
  /// `mapped`. In other chunks `mapped` means `contents`.
  mapped,
};

struct suspend_range {
  const void* address;
  std::size_t bytes;
  keep what;
};

/// The place of contents while their memory sleeps.
enum class sleep_storage {
  /// Pages that hipHostRegister pins, or memory of hipHostMalloc: below 8 MiB, if HIP refuses, and
  /// if less than eight times the bytes are free. Copies run at the speed of the link. resume()
  /// frees it, which on CUDA ends a stream capture under way with an error.
  pinned,
  pageable,  ///< memory of operator new, which the system may swap out: copies are slower
  /// As pinned, but resume() leaves it, and the streams of the copies, to the next suspend() to
  /// pinned memory, because HIP takes longer to pin than to copy. Both last as long as memory
  /// carries the tag, or until a suspend() that keeps nothing or pins nothing. prepare_suspend()
  /// pins it ahead.
  pinned_kept,
  /// A file without a name in suspend_options::folder: it ends with its last use, even if the
  /// process is killed. Copies go through 64 MiB of pinned memory.
  file,
};

struct suspend_options {
  sleep_storage storage = sleep_storage::pinned;
  /// All work that uses the memory is ordered in this stream before the call, which waits for it.
  /// Empty: waits for all work of every device with access.
  std::optional<stream_ref> stream = {};
  /// For sleep_storage::file: on a local disk, to be written by the process.
  std::string folder = {};
  /// Bytes with another action than the call's `what`: each range is backed memory of one object
  /// of the tag, and no byte is in two. In a pool, only bytes of allocated blocks count.
  std::vector<suspend_range> ranges = {};
};

}  // namespace hipvmm

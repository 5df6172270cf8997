// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// The treatment of the bytes of the memory by suspend().
enum class keep {
  contents,  ///< copies them to the host; resume() copies them back
  nothing,   ///< drops them: after resume() the bytes are undefined
  zeros,     ///< drops them: after resume() the bytes are zero
  /// A chunk stays mapped while the tag sleeps, and work may use it, if all of its bytes are
  /// `mapped`. In other chunks `mapped` means `contents`.
  mapped,
};

/// The treatment of some bytes by suspend().
struct suspend_range {
  const void* address;
  std::size_t bytes;
  keep what;
};

/// The place of bytes while their memory sleeps.
enum class sleep_storage {
  /// Pages that hipHostRegister pins (below 8 MiB, and if HIP refuses, memory of hipHostMalloc):
  /// copies run at the speed of the link. On CUDA resume(), which frees it, ends a stream capture
  /// under way with an error.
  pinned,
  pageable,  ///< memory of operator new, which the system may swap out: copies are slower
  /// As pinned, but resume() leaves it, and the streams of the copies, to the next suspend(),
  /// because HIP takes longer to pin memory than to copy it. Both last as long as memory carries
  /// the tag, or until a suspend() that keeps nothing or has other storage than `pinned`, which
  /// uses them too. prepare_suspend() makes the memory before the first suspend().
  pinned_kept,
  /// A file in suspend_options::folder, which has no name and ends with its last use, even if
  /// the process is killed. Copies go through 64 MiB of pinned memory.
  file,
};

struct suspend_options {
  sleep_storage storage = sleep_storage::pinned;
  /// The call waits for this stream: all work that uses the memory is ordered before it there.
  /// Empty: waits for all work of every device with access.
  std::optional<stream_ref> stream = {};
  /// For sleep_storage::file: a folder of a local disk in which the process may write.
  std::string folder = {};
  /// Exceptions to `keep`. Each range is backed memory of one object of the tag, and names no byte
  /// that another names. In a pool, only bytes of allocated blocks count.
  std::vector<suspend_range> ranges = {};
};

}  // namespace hipvmm

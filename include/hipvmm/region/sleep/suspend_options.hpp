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
  nothing,   ///< after resume() the bytes are undefined
  zeros,     ///< after resume() the bytes are zero
  /// A chunk of which all bytes are `mapped` stays mapped, and work may use it. In other chunks
  /// `mapped` acts as `contents`.
  mapped,
};

struct suspend_range {
  const void* address;
  std::size_t bytes;
  keep what;
};

/// The place of contents while the tag sleeps.
enum class sleep_storage {
  /// Copies run at the speed of the link. resume() frees the memory, which on CUDA invalidates a
  /// stream capture under way. Pinned by hipHostRegister; by hipHostMalloc for less than 8 MiB, if
  /// HIP refuses, or if less than eight times the bytes are free.
  pinned,
  pageable,  ///< memory of operator new, which the system may swap out: copies are slower
  /// As pinned, but resume() keeps the memory, and the streams of the copies, for the next
  /// suspend() to pinned memory, because HIP takes longer to pin than to copy. Both end with their
  /// carriers, or by a suspend() that copies nothing or has other storage.
  pinned_kept,
  /// A file without a name, which ends even if the process is killed. Copies go through 64 MiB of
  /// pinned memory.
  file,
};

struct suspend_options {
  sleep_storage storage = sleep_storage::pinned;
  /// suspend() waits for this stream, which must order all work on the memory before the call.
  /// Empty: waits for all work of every device with access.
  std::optional<stream_ref> stream = {};
  std::string folder = {};  ///< for sleep_storage::file: writable, on a local disk
  /// Bytes with another action than the call's `what`. Each range is backed memory of one object of
  /// the tag; none overlap. In a pool, only bytes of allocated blocks count.
  std::vector<suspend_range> ranges = {};
};

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <hipvmm/ipc/attach_options.hpp>
#include <hipvmm/ipc/publication_options.hpp>
#include <hipvmm/region/chunk_view.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

namespace detail {
class attachment;
}  // namespace detail

/// Memory that another process publishes, mapped here as far as refresh() has seen it. What is
/// mapped stays where it is, also when the owner dies: then nothing new comes, see is_open().
/// - Not thread-safe. In a child of fork() it only closes what it has; refresh() and wait_for()
///   throw unsupported.
/// - A moved-from one is empty: its sizes are zero, it is not open, and functions that would change
///   it throw std::invalid_argument.
/// - The owner is trusted with contents only: what it sends is checked before it is mapped.
class attached_region {
 public:
  /// Connects, reserves the addresses, and maps what is there.
  /// Throws: ipc_error `closed` where nobody publishes at `path`; `refused` where the owner is
  /// another user, of another version, provider or runtime of HIP, or publishes other elements, or
  /// refuses this process, with its sentence; `timeout`; `malformed`. std::invalid_argument where
  /// no device here is the owner's; unsupported, also where a device of the memory does not reach
  /// that of another, or one of `options.peers` does not; out_of_memory; hip_error.
  explicit attached_region(const std::string& path, const attach_options& options = {},
                           published_elements elements = {});
  /// Unmaps. Pre: nothing in flight uses the bytes.
  ~attached_region();
  attached_region(attached_region&& other) noexcept;
  attached_region& operator=(attached_region&& other) noexcept;

  /// Maps what the owner announced since the last call, and returns bytes(). Costs two reads of
  /// memory where nothing is new.
  /// - Where chunks were withdrawn or replaced it waits for `stream` before it unmaps them. Where
  ///   quirk::access_from_base is in force it may map all chunks anew then, at the same addresses.
  /// Pre: all work here that uses the bytes is ordered before this call in `stream`, where the
  /// owner may withdraw chunks.
  /// The wait for the owner is attach_options::timeout in all.
  /// Throws:
  /// - ipc_error `timeout`, `malformed`; out_of_memory; hip_error. Then what is mapped stays, and
  ///   the next call goes on. An owner that has gone is no error.
  /// - ipc_error `expired`, once, where this process kept withdrawn chunks longer than the owner's
  ///   publication_options::lease; where unmapping fails, that first, and this by a later call.
  ///   Then nothing is mapped any more, after `stream` has passed:
  ///   bytes() is zero, and is_open() false. Attach again for what is there now.
  std::size_t refresh(stream_ref stream);
  /// Refreshes until at least `bytes` bytes may be read. Returns whether they can; false at the
  /// timeout, and at once where the owner has gone. An answer of the owner that has begun is waited
  /// for as long as attach_options::timeout says.
  bool wait_for(std::size_t bytes, std::chrono::milliseconds timeout, stream_ref stream);

  /// The bytes that may be read, from data() on, as of the last refresh.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The first byte that may be read. refresh() changes it only where the owner's range begins
  /// elsewhere, as after erase_front() of a vector. nullptr when moved from.
  [[nodiscard]] void* data() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  /// Throws: std::invalid_argument when moved from.
  [[nodiscard]] device_ref device() const;
  /// Whether the owner still publishes, as far as wait_for() saw, or a refresh() that fetched
  /// something new.
  [[nodiscard]] bool is_open() const noexcept;
  /// The chunks here, for registration with a communication library.
  [[nodiscard]] std::vector<chunk_view> chunks() const;

 private:
  [[nodiscard]] detail::attachment& live() const;
  std::unique_ptr<detail::attachment> attachment_;
};

/// A growable_device_vector<T> of another process, as attached_region.
template <typename T>
class attached_vector {
 public:
  /// Throws: as attached_region; ipc_error `refused` where the elements are of another size or
  /// alignment.
  explicit attached_vector(const std::string& path, const attach_options& options = {})
      : memory_{path, options, elements_of<T>()} {}

  /// As attached_region::refresh. Returns size().
  std::size_t refresh(stream_ref stream) { return memory_.refresh(stream) / sizeof(T); }
  bool wait_for(std::size_t size, std::chrono::milliseconds timeout, stream_ref stream) {
    return memory_.wait_for(size * sizeof(T), timeout, stream);
  }
  [[nodiscard]] std::size_t size() const noexcept { return memory_.bytes() / sizeof(T); }
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(memory_.data()); }
  [[nodiscard]] device_ref device() const { return memory_.device(); }
  [[nodiscard]] bool is_open() const noexcept { return memory_.is_open(); }
  [[nodiscard]] const attached_region& memory() const noexcept { return memory_; }

 private:
  attached_region memory_;
};

}  // namespace hipvmm

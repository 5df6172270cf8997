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
class import_session;
}  // namespace detail

/// Memory that another process publishes, mapped in this process up to the last refresh(). After
/// the owner has ended the mappings stay valid, and no new chunks arrive (is_open()).
/// - Not thread-safe. In a child of fork() the destructor only closes descriptors; refresh() and
///   wait_for() throw unsupported.
/// - An object that was moved from is empty: its sizes are zero and it is not open; refresh(),
///   wait_for() and device() throw std::invalid_argument.
/// - Only the contents are trusted: all else that the owner sends is checked before it is mapped.
class attached_region {
 public:
  /// Connects, reserves the addresses, and maps the chunks published so far.
  /// Throws: ipc_error: `closed` if no process publishes at `path`; `refused` if the owner is
  /// another user, has another version, provider or HIP runtime, publishes other elements, or
  /// refuses this process (the message quotes it); `timeout`; `malformed`. std::invalid_argument if
  /// this process has no device of the owner's; unsupported if a device of the memory, or of
  /// `options.peers`, cannot reach one of the memory's devices; out_of_memory; hip_error.
  explicit attached_region(const std::string& path, const attach_options& options = {},
                           element_identity elements = {});
  ~attached_region();  ///< unmaps. Pre: nothing in flight uses the bytes
  attached_region(attached_region&& other) noexcept;
  attached_region& operator=(attached_region&& other) noexcept;

  /// Maps the chunks announced since the last call. Returns bytes(). Without new chunks it only
  /// reads memory that the owner shares.
  /// - Before it unmaps withdrawn or replaced chunks, it waits for `stream`. If HIP refuses rights
  ///   beside a hole, it may then map all chunks anew at the same addresses.
  /// Pre: if the owner may withdraw chunks, `stream` is ordered behind all work of this process
  /// that uses the bytes.
  /// Throws:
  /// - ipc_error `timeout`, `malformed`; out_of_memory; hip_error. All mappings stay, and the next
  ///   call continues. The end of the owner is no error.
  /// - ipc_error `expired`, once, if this process kept withdrawn chunks longer than the owner's
  ///   publication_options::lease. After `stream` has passed, nothing is mapped: bytes() is zero
  ///   and is_open() false; attach again. If an unmap fails, its error comes first and `expired`
  ///   from a later call.
  std::size_t refresh(stream_ref stream);
  /// Refreshes until at least `bytes` bytes may be read. Returns whether they may: false at the
  /// timeout, and at once if the owner has ended. An answer that has begun is awaited for up to
  /// attach_options::timeout.
  bool wait_for(std::size_t bytes, std::chrono::milliseconds timeout, stream_ref stream);

  [[nodiscard]] std::size_t bytes() const noexcept;  ///< readable, from data() on
  /// The first byte that may be read; nullptr after a move. refresh() changes it only if the start
  /// of the owner's range changes, for example after erase_front() of a vector.
  [[nodiscard]] void* data() const noexcept;
  [[nodiscard]] std::size_t max_bytes() const noexcept;
  [[nodiscard]] device_ref device() const;
  /// Whether the owner still published at the last wait_for(), or refresh() that fetched chunks.
  [[nodiscard]] bool is_open() const noexcept;
  [[nodiscard]] std::vector<chunk_view> chunks() const;

 private:
  [[nodiscard]] detail::import_session& live() const;
  std::unique_ptr<detail::import_session> session_;
};

/// A growable_device_vector<T> of another process: an attached_region that counts in elements.
template <typename T>
class attached_vector {
 public:
  /// Throws: as attached_region; ipc_error `refused` unless the owner named elements_of<T>().
  explicit attached_vector(const std::string& path, const attach_options& options = {})
      : memory_{path, options, elements_of<T>()} {}

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

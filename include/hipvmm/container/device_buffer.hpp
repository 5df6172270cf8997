// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/per_device_resource.hpp>

namespace hipvmm {

/// Owns uninitialised bytes of a memory resource, in stream order: what is allocated, copied and
/// given back is ordered in the stream of the call, and the memory goes back in the stream named
/// last. It remembers the device that was current at its construction and makes it current where it
/// needs to, so it may be used and destroyed under another one. Holds exactly what it is asked for:
/// growing copies, which growable_device_vector does not. Same thread rules as std::vector.
/// Note: stream_ref::per_thread_default() is another stream in each thread: a buffer that remembers
/// it must be destroyed in the same thread, or be told another stream by set_stream() behind a
/// wait.
class device_buffer {
 public:
  /// Owns nothing; memory will come from the current device's resource.
  device_buffer();
  /// Allocates `bytes` bytes of `resource`, which must outlive them.
  /// Throws: std::invalid_argument when `resource` is nullptr or gives memory of a device that is
  /// not the current one, where hipMM is undefined; out_of_memory; hip_error.
  explicit device_buffer(std::size_t bytes, stream_ref stream,
                         mr::memory_resource* resource = mr::get_current_device_resource());
  /// Allocates and copies `bytes` bytes from `source`, device or host memory; what is pinned or of
  /// a device must stay as it is until `stream` has passed. Throws: std::invalid_argument when
  /// `source` is nullptr and `bytes` not zero; as above.
  device_buffer(const void* source, std::size_t bytes, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource());
  /// Copies the size() bytes of `other`, which may be of another device. Throws: as above.
  device_buffer(const device_buffer& other, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource());
  // A copy needs a stream.
  device_buffer(const device_buffer&) = delete;
  device_buffer& operator=(const device_buffer&) = delete;
  /// The moved-from buffer is empty and may be used again, with the same device and resource.
  device_buffer(device_buffer&& other) noexcept;
  /// Gives the memory from before back in the stream from before.
  device_buffer& operator=(device_buffer&& other) noexcept;
  ~device_buffer();

  /// Makes the capacity at least `bytes`. Where that is more than before, the size() bytes are
  /// copied into new memory and the old goes back, all in `stream`; data() changes.
  /// Pre: all work that uses the bytes is ordered before this call in `stream`.
  /// Throws: out_of_memory; hip_error; then nothing has changed, stream() neither.
  void reserve(std::size_t bytes, stream_ref stream);
  /// Makes the size `bytes`; those added are uninitialised. Memory changes as reserve() says, and
  /// only beyond the capacity. Pre, Throws: as reserve().
  void resize(std::size_t bytes, stream_ref stream);
  /// Makes the capacity the size, by a copy as reserve() makes where they differ.
  /// Pre, Throws: as reserve().
  void shrink_to_fit(stream_ref stream);

  [[nodiscard]] void* data() noexcept { return data_; }
  [[nodiscard]] const void* data() const noexcept { return data_; }
  /// Bytes in use.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t ssize() const noexcept { return static_cast<std::int64_t>(size_); }
  [[nodiscard]] bool is_empty() const noexcept { return size_ == 0; }
  /// Bytes allocated.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  /// The stream in which the memory will go back: that of the last call that took one.
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// Pre: all work that uses the bytes is ordered before what `stream` is given from now on, and
  /// `stream` lives as long as they do.
  void set_stream(stream_ref stream) noexcept { stream_ = stream; }
  /// The device that was current at construction.
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// The resource that the memory comes from; never nullptr.
  [[nodiscard]] mr::memory_resource* memory_resource() const noexcept { return resource_; }

 private:
  device_buffer(device_ref device, std::size_t bytes, stream_ref stream,
                mr::memory_resource* resource);
  void replace(std::size_t capacity, stream_ref stream);
  void swap_memory(device_buffer& other) noexcept;

  void* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  device_ref device_;
  stream_ref stream_;
  mr::memory_resource* resource_;
};

}  // namespace hipvmm

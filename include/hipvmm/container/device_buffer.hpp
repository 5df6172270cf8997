// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include <hipvmm/container/device_span.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// Owns uninitialised bytes of a resource, in stream order. Same thread rules as std::vector.
/// - The destructor deallocates in the stream of the last call that took one.
/// - Calls after construction make the buffer's device current, and restore the caller's.
/// - Growth copies, because the capacity is exactly the requested one.
/// Note: stream_ref::per_thread_default() is another stream in each thread. A buffer that stores it
/// must be destroyed in the same thread, or be given another stream by set_stream() after a wait.
class device_buffer {
 public:
  /// Makes an empty buffer of the current device and its resource.
  device_buffer();
  /// Pre: `resource` outlives the bytes. Throws: std::invalid_argument if it is nullptr, or of a
  /// device that is not current (undefined in hipMM); out_of_memory; hip_error.
  explicit device_buffer(std::size_t bytes, stream_ref stream,
                         mr::memory_resource* resource = mr::get_current_device_resource());
  /// Copies device or host memory; pinned or device memory must not change until the copy is done.
  /// Throws: std::invalid_argument when `source` is nullptr and `bytes` not zero; as above.
  device_buffer(const void* source, std::size_t bytes, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource());
  /// `other` may be of another device. Throws: as above.
  device_buffer(const device_buffer& other, stream_ref stream,
                mr::memory_resource* resource = mr::get_current_device_resource());
  /// The moved-from buffer is empty and may be used again, with the same device and resource.
  device_buffer(device_buffer&& other) noexcept;
  device_buffer& operator=(device_buffer&& other) noexcept;
  ~device_buffer();

  /// Makes the capacity at least `bytes`. If it grows, the size() bytes are copied, and data()
  /// changes. Pre: all work that uses the bytes is ordered before this call in `stream`.
  /// Throws: out_of_memory; hip_error; then nothing has changed, including stream().
  void reserve(std::size_t bytes, stream_ref stream);
  /// Added bytes are uninitialised. Memory, Pre, Throws: as reserve().
  void resize(std::size_t bytes, stream_ref stream);
  /// Copies if the capacity differs from the size. Pre, Throws: as reserve().
  void shrink_to_fit(stream_ref stream);

  [[nodiscard]] void* data() noexcept { return data_; }
  [[nodiscard]] const void* data() const noexcept { return data_; }
  [[nodiscard]] device_span<std::byte> span() noexcept {
    return {static_cast<std::byte*>(data_), size_};
  }
  [[nodiscard]] device_span<const std::byte> span() const noexcept {
    return {static_cast<const std::byte*>(data_), size_};
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t ssize() const noexcept { return static_cast<std::int64_t>(size_); }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] bool is_empty() const noexcept { return empty(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// Pre: the allocation, and all work that uses the bytes, are ordered before work submitted to
  /// `stream` from now on, and `stream` lives as long as the bytes.
  void set_stream(stream_ref stream) noexcept { stream_ = stream; }
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  /// Never nullptr.
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

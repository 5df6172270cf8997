// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_buffer.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/runtime/copy.hpp>

namespace hipvmm {

device_buffer::device_buffer()
    : device_{device_ref::current()},
      stream_{stream_ref::legacy_default()},
      resource_{mr::get_per_device_resource(device_)} {}

device_buffer::device_buffer(std::size_t bytes, stream_ref stream, mr::memory_resource* resource)
    : device_buffer{mr::require_current_device("device_buffer", resource), bytes, stream,
                    resource} {}

device_buffer::device_buffer(const void* source, std::size_t bytes, stream_ref stream,
                             mr::memory_resource* resource)
    : device_buffer{bytes, stream, resource} {
  if (bytes == 0) return;
  if (source == nullptr)
    throw std::invalid_argument{"device_buffer: the source of " + std::to_string(bytes) +
                                " bytes is nullptr: pass their address"};
  copy_async(stream, data_, source, bytes);
}

device_buffer::device_buffer(const device_buffer& other, stream_ref stream,
                             mr::memory_resource* resource)
    : device_buffer{other.size_, stream, resource} {
  if (size_ == 0) return;
  // A pool's memory may be out of reach for the other device.
  if (device_ != other.device_ && resource->device() && other.resource_->device())
    copy_peer_async(stream, data_, device_, other.data_, other.device_, size_);
  else
    copy_async(stream, data_, other.data_, size_);
}

// Pre: `device` is current.
device_buffer::device_buffer(device_ref device, std::size_t bytes, stream_ref stream,
                             mr::memory_resource* resource)
    : data_{resource->allocate(stream, bytes)},
      size_{bytes},
      capacity_{bytes},
      device_{device},
      stream_{stream},
      resource_{resource} {}

device_buffer::device_buffer(device_buffer&& other) noexcept
    : data_{std::exchange(other.data_, nullptr)},
      size_{std::exchange(other.size_, 0)},
      capacity_{std::exchange(other.capacity_, 0)},
      device_{other.device_},
      stream_{other.stream_},
      resource_{other.resource_} {}

device_buffer& device_buffer::operator=(device_buffer&& other) noexcept {
  device_buffer moved{std::move(other)};
  swap_memory(moved);
  return *this;
}

device_buffer::~device_buffer() {
  if (data_ != nullptr) mr::deallocate_under(device_, resource_, stream_, data_, capacity_);
}

void device_buffer::reserve(std::size_t bytes, stream_ref stream) {
  if (bytes > capacity_) replace(bytes, stream);
  stream_ = stream;
}

void device_buffer::resize(std::size_t bytes, stream_ref stream) {
  reserve(bytes, stream);
  size_ = bytes;
}

void device_buffer::shrink_to_fit(stream_ref stream) {
  if (capacity_ != size_) replace(size_, stream);
  stream_ = stream;
}

/// Pre: `capacity` >= `size_`.
void device_buffer::replace(std::size_t capacity, stream_ref stream) {
  const scoped_device scope{device_};
  device_buffer other{device_, capacity, stream, resource_};
  if (size_ != 0) copy_async(stream, other.data_, data_, size_);
  other.size_ = size_;
  swap_memory(other);
  other.stream_ = stream;
}

void device_buffer::swap_memory(device_buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  std::swap(resource_, other.resource_);
}

}  // namespace hipvmm

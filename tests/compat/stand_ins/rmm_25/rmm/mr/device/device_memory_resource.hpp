// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cuda/memory_resource>
#include <rmm/cuda_stream_view.hpp>

namespace rmm::mr {

class device_memory_resource {
 public:
  device_memory_resource() = default;
  virtual ~device_memory_resource() = default;
  device_memory_resource(const device_memory_resource&) = default;
  device_memory_resource& operator=(const device_memory_resource&) = default;

  void* allocate(std::size_t bytes, cuda_stream_view stream = {}) {
    return do_allocate(bytes, stream);
  }
  void deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream = {}) {
    do_deallocate(pointer, bytes, stream);
  }
  void* allocate(std::size_t bytes, std::size_t) { return do_allocate(bytes, {}); }
  void deallocate(void* pointer, std::size_t bytes, std::size_t) {
    do_deallocate(pointer, bytes, {});
  }
  void* allocate_async(std::size_t bytes, std::size_t, cuda_stream_view stream) {
    return do_allocate(bytes, stream);
  }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t, cuda_stream_view stream) {
    do_deallocate(pointer, bytes, stream);
  }
  [[nodiscard]] bool is_equal(const device_memory_resource& other) const noexcept {
    return do_is_equal(other);
  }
  friend bool operator==(const device_memory_resource& a,
                         const device_memory_resource& b) noexcept {
    return a.do_is_equal(b);
  }
  friend void get_property(const device_memory_resource&, cuda::mr::device_accessible) noexcept {}

 private:
  virtual void* do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
  virtual void do_deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream) = 0;
  [[nodiscard]] virtual bool do_is_equal(const device_memory_resource& other) const noexcept {
    return this == &other;
  }
};

}  // namespace rmm::mr

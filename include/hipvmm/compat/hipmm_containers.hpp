// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

#include <hipvmm/compat/hipmm_core.hpp>
#include <hipvmm/compat/hipmm_resource_ref.hpp>
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_uvector.hpp>

// hipvmm's containers, which return their streams and resources as hipMM's types.
namespace hipvmm::hipmm {

template <typename Container>
class container_of : public Container {
 public:
  using Container::Container;
  // NOLINTNEXTLINE(google-explicit-constructor): converts to hipMM's parameters
  container_of(Container&& other) noexcept : Container{std::move(other)} {}

  [[nodiscard]] cuda_stream_view stream() const noexcept { return Container::stream(); }
  [[nodiscard]] device_async_resource_ref memory_resource() const noexcept {
    return *Container::memory_resource();
  }
};

class device_buffer : public container_of<hipvmm::device_buffer> {
 public:
  using container_of::container_of;
  device_buffer() = default;
};

template <typename T>
class device_uvector : public container_of<hipvmm::device_uvector<T>> {
 public:
  using container_of<hipvmm::device_uvector<T>>::container_of;
  using reverse_iterator = std::reverse_iterator<T*>;
  using const_reverse_iterator = std::reverse_iterator<const T*>;

  [[nodiscard]] device_buffer release() noexcept { return hipvmm::device_uvector<T>::release(); }
  [[nodiscard]] reverse_iterator rbegin() noexcept { return reverse_iterator{this->end()}; }
  [[nodiscard]] reverse_iterator rend() noexcept { return reverse_iterator{this->begin()}; }
  [[nodiscard]] const_reverse_iterator rbegin() const noexcept { return crbegin(); }
  [[nodiscard]] const_reverse_iterator rend() const noexcept { return crend(); }
  [[nodiscard]] const_reverse_iterator crbegin() const noexcept {
    return const_reverse_iterator{this->cend()};
  }
  [[nodiscard]] const_reverse_iterator crend() const noexcept {
    return const_reverse_iterator{this->cbegin()};
  }
};

template <typename T>
class device_scalar : public container_of<hipvmm::device_scalar<T>> {
 public:
  using container_of<hipvmm::device_scalar<T>>::container_of;
};

/// Prefetches managed memory to `device` in the order of `stream`. As with hipMM, other memory is
/// not moved. Throws: as hipvmm::prefetch_async for other failures.
void prefetch(const void* pointer, std::size_t bytes, cuda_device_id device,
              cuda_stream_view stream);
/// The same for a container or span. The first template parameter is hipMM's, and not used.
template <typename = void, typename Elements>
void prefetch(const Elements& elements, cuda_device_id device, cuda_stream_view stream) {
  prefetch(elements.data(), elements.size() * sizeof(*elements.data()), device, stream);
}

}  // namespace hipvmm::hipmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>

#include <hipvmm/adaptor/hipmm_core.hpp>
#include <hipvmm/adaptor/hipmm_resource_ref.hpp>
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include <hipvmm/container/device_uvector.hpp>

// hipMM's containers: ours, whose streams and resources are told as hipMM's; part of
// <hipvmm/adaptor/hipmm.hpp>.
namespace hipvmm::hipmm {

/// A container of ours, made with its constructors.
template <typename Container>
class container_of : public Container {
 public:
  using Container::Container;
  // NOLINTNEXTLINE(google-explicit-constructor): ours passes where hipMM's is asked
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
  [[nodiscard]] device_buffer release() noexcept { return hipvmm::device_uvector<T>::release(); }
};

template <typename T>
class device_scalar : public container_of<hipvmm::device_scalar<T>> {
 public:
  using container_of<hipvmm::device_scalar<T>>::container_of;
};

/// Moves managed memory to `device` in the order of `stream`, ahead of its use; other memory stays
/// where it is, as with hipMM. Throws: as hipvmm::prefetch_async for what else fails.
void prefetch(const void* pointer, std::size_t bytes, cuda_device_id device,
              cuda_stream_view stream);
/// The same for the elements of a container or span. The first parameter is hipMM's and not used.
template <typename = void, typename Elements>
void prefetch(const Elements& elements, cuda_device_id device, cuda_stream_view stream) {
  prefetch(elements.data(), elements.size() * sizeof(*elements.data()), device, stream);
}

}  // namespace hipvmm::hipmm

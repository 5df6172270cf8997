// SPDX-License-Identifier: MIT
#pragma once

// On the host provider Thrust runs over its CPP system (THRUST_DEVICE_SYSTEM_CPP): the memory must
// be host-accessible too, and the allocator and the policies wait for their stream.
#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/device_vector.h>
#include <thrust/memory.h>
#include <thrust/version.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

#if defined(THRUST_DEVICE_SYSTEM_HIP) && THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_HIP
#include <thrust/system/hip/execution_policy.h>
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
#include <thrust/system/cuda/execution_policy.h>
#elif THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CPP
#include <thrust/system/cpp/execution_policy.h>
#define HIPVMM_THRUST_ON_HOST 1
#else
#error "hipvmm/compat/thrust.hpp needs Thrust's device system HIP, CUDA or CPP"
#endif

namespace hipvmm {
namespace mr {

/// An allocator for Thrust's containers and algorithms: allocates from a resource in one stream,
/// with the device current that was current at construction. Differs from hipMM's:
/// - two allocators are equal only if resource, stream and device are equal;
/// - containers that move or swap take their allocators along: memory returns to its own resource.
/// Note: Thrust itself initialises and copies the elements of a container in its default stream,
/// the null stream. Give the allocator that stream, as hipMM does, or order the two streams.
template <typename T>
class thrust_allocator {
 public:
  using value_type = T;
  using pointer = thrust::device_ptr<T>;
  using const_pointer = thrust::device_ptr<const T>;
  using reference = thrust::device_reference<T>;
  using const_reference = thrust::device_reference<const T>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using is_always_equal = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  template <typename U>
  struct rebind {
    using other = thrust_allocator<U>;
  };

  thrust_allocator() : thrust_allocator{stream_ref::legacy_default()} {}
  /// Throws: std::invalid_argument when `resource` is nullptr or of a device that is not current.
  explicit thrust_allocator(stream_ref stream,
                            memory_resource* resource = get_current_device_resource())
      : stream_{stream},
        resource_{resource},
        device_{require_current_device("thrust_allocator", resource)} {}
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor): required by Thrust's allocator_traits
  thrust_allocator(const thrust_allocator<U>& other)
      : stream_{other.stream()},
        resource_{other.get_upstream_resource()},
        device_{other.device()} {}

  /// The elements may be used in the order of the stream; on the CPP system at once.
  /// Throws: std::length_error when so many exceed the address space; as the resource.
  [[nodiscard]] pointer allocate(size_type count) {
    const scoped_device scope{device_};
    const std::size_t bytes = bytes_for(count, sizeof(T));
#ifdef HIPVMM_THRUST_ON_HOST
    return pointer{static_cast<T*>(resource_->allocate_sync(bytes, alignment))};
#else
    return pointer{static_cast<T*>(resource_->allocate(stream_, bytes, alignment))};
#endif
  }
  void deallocate(pointer elements, size_type count) noexcept {
    deallocate_under(device_, resource_, stream_, thrust::raw_pointer_cast(elements),
                     count * sizeof(T), alignment);
  }
  [[nodiscard]] size_type max_size() const noexcept {
    return std::numeric_limits<size_type>::max() / sizeof(T);
  }

  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return resource_; }
  [[nodiscard]] device_ref device() const noexcept { return device_; }

 private:
  static constexpr std::size_t alignment = std::max(alignof(T), memory_resource::default_alignment);

  stream_ref stream_;
  memory_resource* resource_;
  device_ref device_;
};

template <typename T, typename U>
bool operator==(const thrust_allocator<T>& a, const thrust_allocator<U>& b) noexcept {
  return a.stream() == b.stream() && a.device() == b.device() &&
         a.get_upstream_resource()->is_equal(*b.get_upstream_resource());
}
template <typename T, typename U>
bool operator!=(const thrust_allocator<T>& a, const thrust_allocator<U>& b) noexcept {
  return !(a == b);
}

}  // namespace mr

/// A thrust::device_vector in memory of a resource. Construct it with the resource's device
/// current; it may be destroyed with another one current. Calls that launch a kernel, such as
/// resize(), need its own device to be current.
template <typename T>
using device_vector = thrust::device_vector<T, mr::thrust_allocator<T>>;

namespace detail {

// Each policy stores a copy of the allocator, because Thrust would only refer to a named one.
#ifdef HIPVMM_THRUST_ON_HOST
inline auto thrust_policy(stream_ref stream, mr::memory_resource* resource) {
  stream.synchronize();
  return thrust::cpp::par(mr::thrust_allocator<char>{stream, resource});
}
inline auto thrust_policy_nosync(stream_ref stream, mr::memory_resource* resource) {
  return thrust_policy(stream, resource);
}
#else
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
namespace thrust_system = thrust::cuda;
using thrust_stream = cudaStream_t;
#else
namespace thrust_system = thrust::hip;
using thrust_stream = hipStream_t;
#endif
inline auto thrust_policy(stream_ref stream, mr::memory_resource* resource) {
  return thrust_system::par(mr::thrust_allocator<char>{stream, resource})
      .on(reinterpret_cast<thrust_stream>(stream.get()));
}
inline auto thrust_policy_nosync(stream_ref stream, mr::memory_resource* resource) {
#if THRUST_VERSION >= 101600
  return thrust_system::par_nosync(mr::thrust_allocator<char>{stream, resource})
      .on(reinterpret_cast<thrust_stream>(stream.get()));
#else
  return thrust_policy(stream, resource);
#endif
}
#endif

}  // namespace detail

using thrust_exec_policy_t = decltype(detail::thrust_policy(
    stream_ref::legacy_default(), static_cast<mr::memory_resource*>(nullptr)));
using thrust_exec_policy_nosync_t = decltype(detail::thrust_policy_nosync(
    stream_ref::legacy_default(), static_cast<mr::memory_resource*>(nullptr)));

/// Runs a Thrust algorithm in `stream`, with temporary memory from `resource` in that stream. On
/// the CPP system the constructor waits for `stream`; if the program then submits work to `stream`,
/// it must wait for that before the next algorithm.
class exec_policy : public thrust_exec_policy_t {
 public:
  /// Throws: std::invalid_argument when `resource` is nullptr or of a device that is not current.
  explicit exec_policy(stream_ref stream = stream_ref::legacy_default(),
                       mr::memory_resource* resource = mr::get_current_device_resource())
      : thrust_exec_policy_t{detail::thrust_policy(stream, resource)} {}
};

/// As exec_policy, but algorithms need not wait for `stream` unless their result requires it.
/// Before Thrust 1.16, and on the CPP system, they wait nevertheless.
class exec_policy_nosync : public thrust_exec_policy_nosync_t {
 public:
  explicit exec_policy_nosync(stream_ref stream = stream_ref::legacy_default(),
                              mr::memory_resource* resource = mr::get_current_device_resource())
      : thrust_exec_policy_nosync_t{detail::thrust_policy_nosync(stream, resource)} {}
};

}  // namespace hipvmm

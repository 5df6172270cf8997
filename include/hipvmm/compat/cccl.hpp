// SPDX-License-Identifier: MIT
#pragma once

// Needs CCCL's headers, or libhipcxx's on AMD. Both forms of its concepts are served: that since
// CCCL 3.1, allocate(stream, bytes, alignment) and allocate_sync(), and the older allocate_async().
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/compat/foreign_resource.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

#if !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#if defined(CCCL_VERSION) && CCCL_VERSION < 3001000
#error "CCCL before 3.1 has cuda::mr with -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE only"
#elif defined(_CUDA_STREAM_REF) && !defined(CCCL_VERSION) && !defined(_LIBCUDACXX_CUDA_API_VERSION)
#error "this libhipcxx has cuda::mr with -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE only"
#endif
#endif

namespace hipvmm {
namespace detail {

inline stream_ref from_cccl(cuda::stream_ref stream) noexcept { return stream.get(); }
inline cuda::stream_ref to_cccl(stream_ref stream) noexcept {
  using handle = decltype(std::declval<const cuda::stream_ref&>().get());
  return cuda::stream_ref{reinterpret_cast<handle>(stream.get())};
}

template <typename Resource, typename = void>
struct takes_stream_first : std::false_type {};
template <typename Resource>
struct takes_stream_first<Resource,
                          std::void_t<decltype(std::declval<Resource&>().allocate(
                              std::declval<cuda::stream_ref>(), std::size_t{}, std::size_t{}))>>
    : std::true_type {};

template <typename Resource, typename Property, typename = void>
struct has_cccl_property : std::false_type {};
template <typename Resource, typename Property>
struct has_cccl_property<
    Resource, Property,
    std::void_t<decltype(get_property(std::declval<const Resource&>(), Property{}))>>
    : std::true_type {};

template <typename Resource>
constexpr mr::foreign_reach reach_of() {
  constexpr bool device = has_cccl_property<Resource, cuda::mr::device_accessible>::value;
  constexpr bool host = has_cccl_property<Resource, cuda::mr::host_accessible>::value;
  static_assert(device || host, "the resource has neither device_accessible nor host_accessible");
  if (!host) return mr::foreign_reach::device;
  return device ? mr::foreign_reach::host_and_device : mr::foreign_reach::host;
}

}  // namespace detail

namespace mr {

/// A resource of hipvmm that satisfies CCCL's concepts: cuda::mr::resource_with<Properties...>,
/// before CCCL 3.1 async_resource_with. Properties: cuda::mr::device_accessible, host_accessible or
/// both. Copies are handles of the same resource and equal.
/// - Made of a pointer, it does not own the resource; made of a std::shared_ptr, it shares it.
/// - Its thread rules, exceptions and alignments are the resource's.
template <typename... Properties>
class cccl_resource {
 public:
#if defined(CCCL_VERSION) && CCCL_VERSION >= 3002000
  using default_queries = cuda::mr::properties_list<Properties...>;  // for cuda::buffer
#endif

  /// Throws: std::invalid_argument when `resource` is nullptr or lacks one of the properties.
  explicit cccl_resource(memory_resource* resource)
      : cccl_resource{std::shared_ptr<memory_resource>{std::shared_ptr<void>{}, resource}} {}
  explicit cccl_resource(std::shared_ptr<memory_resource> resource)
      : resource_{std::move(resource)} {
    require_resource("cccl_resource", resource_.get());
    (require(Properties{}), ...);
  }

  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = memory_resource::default_alignment) {
    return resource_->allocate(detail::from_cccl(stream), bytes, alignment);
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t alignment = memory_resource::default_alignment) noexcept {
    resource_->deallocate(detail::from_cccl(stream), pointer, bytes, alignment);
  }
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = memory_resource::default_alignment) {
    return resource_->allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t alignment = memory_resource::default_alignment) noexcept {
    resource_->deallocate_sync(pointer, bytes, alignment);
  }

  // The same by the names before CCCL 3.1, which had no suffix for calls without a stream.
  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, cuda::stream_ref stream) {
    return allocate(stream, bytes);
  }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t alignment,
                        cuda::stream_ref stream) noexcept {
    deallocate(stream, pointer, bytes, alignment);
  }
  void deallocate_async(void* pointer, std::size_t bytes, cuda::stream_ref stream) noexcept {
    deallocate(stream, pointer, bytes);
  }
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t alignment = memory_resource::default_alignment) {
    return allocate_sync(bytes, alignment);
  }
  void deallocate(void* pointer, std::size_t bytes,
                  std::size_t alignment = memory_resource::default_alignment) noexcept {
    deallocate_sync(pointer, bytes, alignment);
  }

  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept { return resource_.get(); }

  friend bool operator==(const cccl_resource& a, const cccl_resource& b) noexcept {
    return a.resource_->is_equal(*b.resource_);
  }
  friend bool operator!=(const cccl_resource& a, const cccl_resource& b) noexcept {
    return !(a == b);
  }
  template <typename Property,
            typename = std::enable_if_t<(std::is_same_v<Property, Properties> || ...)>>
  friend constexpr void get_property(const cccl_resource&, Property) noexcept {}

 private:
  void require(cuda::mr::device_accessible) const {
    if (!resource_->is_device_accessible()) refuse("kernels", "is_device_accessible");
  }
  void require(cuda::mr::host_accessible) const {
    if (!resource_->is_host_accessible()) refuse("host code", "is_host_accessible");
  }
  [[noreturn]] static void refuse(const char* user, const char* function) {
    throw std::invalid_argument{std::string{"cccl_resource: "} + user +
                                " cannot use the memory of the resource; pass one whose " +
                                function + "() is true, or leave the property out"};
  }

  std::shared_ptr<memory_resource> resource_;
};

/// A resource of CCCL as one of hipvmm. `Resource` satisfies cuda::mr::resource, before CCCL 3.1
/// async_resource; its properties say whether the host and the device may use the memory. It is
/// stored by value: pass a cuda::mr::resource_ref to refer to an existing one.
/// - Calls are made with the given device current, and their exceptions propagate.
/// - Alignments are passed on; many resources of CCCL refuse more than 256.
template <typename Resource>
class from_cccl_resource : public foreign_resource {
 public:
  /// `device` owns the memory, unless only the host may use it.
  /// Throws: as the copy of `resource`; unsupported if there is no HIP device.
  explicit from_cccl_resource(Resource resource, device_ref device = device_ref::current())
      : from_cccl_resource{"from_cccl_resource", std::move(resource), device} {}

  [[nodiscard]] const Resource& foreign() const noexcept { return resource_; }

 protected:
  from_cccl_resource(const char* name, Resource resource, device_ref device)
      : foreign_resource{name, reach,
                         reach == foreign_reach::host ? std::nullopt : std::optional{device}},
        resource_{std::move(resource)} {}

  [[nodiscard]] void* foreign_allocate(stream_ref stream, std::size_t bytes,
                                       std::size_t alignment) override {
    if constexpr (detail::takes_stream_first<Resource>::value)
      return resource_.allocate(detail::to_cccl(stream), bytes, alignment);
    else
      return resource_.allocate_async(bytes, alignment, detail::to_cccl(stream));
  }
  void foreign_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                          std::size_t alignment) override {
    if constexpr (detail::takes_stream_first<Resource>::value)
      resource_.deallocate(detail::to_cccl(stream), pointer, bytes, alignment);
    else
      resource_.deallocate_async(pointer, bytes, alignment, detail::to_cccl(stream));
  }

 private:
  static constexpr foreign_reach reach = detail::reach_of<Resource>();

  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const from_cccl_resource*>(&other);
    return same != nullptr && resource_ == same->resource_;
  }

  Resource resource_;
};

}  // namespace mr
}  // namespace hipvmm

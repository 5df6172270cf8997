// SPDX-License-Identifier: MIT
#pragma once

// For programs that keep RMM; to replace it, include <hipvmm/compat/hipmm.hpp>. Needs RMM 24.04 or
// newer, or hipMM. RMM up to 26.04 and hipMM have the base class device_memory_resource; newer ones
// have CCCL's concepts instead.
#include <rmm/resource_ref.hpp>

#if __has_include(<rmm/mr/device_memory_resource.hpp>)
#include <rmm/mr/device_memory_resource.hpp>
#define HIPVMM_RMM_HAS_BASE_CLASS 1
#elif __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#include <rmm/mr/device/device_memory_resource.hpp>
#define HIPVMM_RMM_HAS_BASE_CLASS 1
#else
#define HIPVMM_RMM_HAS_BASE_CLASS 0
#endif
#if __has_include(<rmm/error.hpp>)
#include <rmm/error.hpp>
#else
#include <rmm/detail/error.hpp>
#endif

#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <hipvmm/compat/cccl.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {
namespace detail {

template <typename Allocate>
void* with_rmm_errors(Allocate allocate) {
  try {
    return allocate();
  } catch (const rmm::bad_alloc&) {
    throw;  // RMM's own, of an upstream
  } catch (const out_of_memory& error) {
    throw rmm::out_of_memory{error.what()};
  } catch (const std::exception& error) {
    throw rmm::bad_alloc{error.what()};
  }
}

}  // namespace detail

namespace mr {

/// A cccl_resource with RMM's exceptions, for those parts of RMM that take resources by CCCL's
/// concepts: rmm::device_async_resource_ref and its like, and everything since RMM 26.06. Throws
/// rmm::out_of_memory in place of out_of_memory, rmm::bad_alloc in place of any other exception.
template <typename... Properties>
class rmm_resource_with : public cccl_resource<Properties...> {
  using base = cccl_resource<Properties...>;

 public:
  using base::base;
  using base::deallocate;

  [[nodiscard]] void* allocate(cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = memory_resource::default_alignment) {
    return detail::with_rmm_errors([&] { return base::allocate(stream, bytes, alignment); });
  }
  [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                    std::size_t alignment = memory_resource::default_alignment) {
    return detail::with_rmm_errors([&] { return base::allocate_sync(bytes, alignment); });
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment,
                                     cuda::stream_ref stream) {
    return allocate(stream, bytes, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t bytes, cuda::stream_ref stream) {
    return allocate(stream, bytes);
  }
  [[nodiscard]] void* allocate(std::size_t bytes,
                               std::size_t alignment = memory_resource::default_alignment) {
    return allocate_sync(bytes, alignment);
  }
};

#if HIPVMM_RMM_HAS_BASE_CLASS
static_assert(!std::is_base_of_v<memory_resource, rmm::mr::device_memory_resource>,
              "these headers <rmm/...> are hipvmm's own (HIPVMM_RMM), whose resources need no "
              "adaptor; to use RMM's, put its include folder first");

/// For RMM's containers and adaptors and rmm::mr::set_current_device_resource().
/// - Made of a pointer, it does not own the resource; made of a std::shared_ptr, it shares it.
/// - Memory is at a multiple of 256, as RMM requires.
/// - Throws: rmm::out_of_memory in place of out_of_memory, rmm::bad_alloc in place of any other.
/// - Deallocation never throws. The stream may be destroyed afterwards; a pool made with
///   pool_options::forgets_streams needs forget_stream() before.
class rmm_resource final : public rmm::mr::device_memory_resource {
 public:
  /// Throws: std::invalid_argument when `resource` is nullptr or not for kernels.
  explicit rmm_resource(memory_resource* resource) : resource_{resource} {}
  explicit rmm_resource(std::shared_ptr<memory_resource> resource)
      : resource_{std::move(resource)} {}

  [[nodiscard]] memory_resource* get_upstream_resource() const noexcept {
    return resource_.get_upstream_resource();
  }

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view stream) override {
    return resource_.allocate(cuda::stream_ref{stream}, bytes);
  }
  void do_deallocate(void* pointer, std::size_t bytes,
                     rmm::cuda_stream_view stream) noexcept override {
    resource_.deallocate(cuda::stream_ref{stream}, pointer, bytes);
  }
  [[nodiscard]] bool do_is_equal(
      const rmm::mr::device_memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const rmm_resource*>(&other);
    return same != nullptr && resource_ == same->resource_;
  }

  rmm_resource_with<cuda::mr::device_accessible> resource_;
};
#else
/// Satisfies cuda::mr::resource_with<device_accessible>.
using rmm_resource = rmm_resource_with<cuda::mr::device_accessible>;
#endif

/// A resource of RMM as one of hipvmm: `from_rmm_resource upstream{&pool}`.
/// - Made of a pointer, it refers to the resource, which must outlive it.
/// - Made of a resource by value, it has a copy. Since RMM 26.06 copies share their state; a copied
///   rmm::device_async_resource_ref refers to the same resource.
/// - Calls are made with `device` current. RMM requires the one of its resource's construction.
/// Throws: out_of_memory in place of rmm::out_of_memory; unsupported for an alignment above 256;
/// other exceptions of RMM unchanged, such as rmm::bad_alloc, which is a std::bad_alloc.
template <typename Resource>
class from_rmm_resource final : public from_cccl_resource<Resource> {
  using base = from_cccl_resource<Resource>;

 public:
  /// Throws: as the copy of `resource`; unsupported if there is no HIP device.
  explicit from_rmm_resource(Resource resource, device_ref device = device_ref::current())
      : base{"from_rmm_resource", std::move(resource), device} {}
  /// Throws: std::invalid_argument when `resource` is nullptr; unsupported as above.
  template <typename Foreign>
  explicit from_rmm_resource(Foreign* resource, device_ref device = device_ref::current())
      : from_rmm_resource{Resource{require_foreign(resource)}, device} {}

 private:
  [[nodiscard]] void* foreign_allocate(stream_ref stream, std::size_t bytes,
                                       std::size_t alignment) override {
    if (alignment > memory_resource::default_alignment)
      throw unsupported{"from_rmm_resource: an alignment of " + std::to_string(alignment) +
                        " bytes is more than the 256 that RMM's resources know; put an "
                        "aligned_resource_adaptor over the resource"};
    try {
      return base::foreign_allocate(stream, bytes, memory_resource::default_alignment);
    } catch (const rmm::out_of_memory& error) {
      throw out_of_memory{std::string{"from_rmm_resource: "} + error.what()};
    }
  }
  void foreign_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                          std::size_t) override {
    base::foreign_deallocate(stream, pointer, bytes, memory_resource::default_alignment);
  }
  template <typename Foreign>
  static Foreign& require_foreign(Foreign* resource) {
    if (resource == nullptr)
      throw std::invalid_argument{"from_rmm_resource: the resource is nullptr; pass one"};
    return *resource;
  }
};
template <typename Foreign>
from_rmm_resource(Foreign*) -> from_rmm_resource<rmm::device_async_resource_ref>;
template <typename Foreign>
from_rmm_resource(Foreign*, device_ref) -> from_rmm_resource<rmm::device_async_resource_ref>;

}  // namespace mr
}  // namespace hipvmm

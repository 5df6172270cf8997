// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory_resource>
#include <optional>
#include <utility>

#include <hipvmm/compat/hipmm_core.hpp>
#include <hipvmm/compat/hipmm_resource_ref.hpp>
#include <hipvmm/compat/std_pmr.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/new_delete_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/mr/resource/system_resource.hpp>

// Nested in three namespaces, because programs write rmm::mr.
namespace hipvmm::hipmm::mr {

/// hipMM's base class, as a hipvmm resource: programs override do_allocate() and do_deallocate().
/// As with hipMM, a reference converts to a pointer to a resource.
/// - allocate_sync() calls do_allocate() with the null stream, and waits for that stream.
/// - deallocate_sync() waits for all devices, then calls do_deallocate() with the null stream. If
///   the wait fails, the memory stays allocated, and the error handler gets a report.
class device_memory_resource : public hipvmm::mr::memory_resource {
 public:
  using memory_resource::allocate;
  using memory_resource::deallocate;
  using memory_resource::is_equal;

  // NOLINTNEXTLINE(google-explicit-constructor): our functions take hipMM's references
  operator memory_resource*() & noexcept { return this; }

  void* allocate(std::size_t bytes, cuda_stream_view stream = {}) {
    return memory_resource::allocate(stream, bytes);
  }
  void deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream = {}) noexcept {
    memory_resource::deallocate(stream, pointer, bytes);
  }
  /// Allocates at a multiple of `alignment`, in the null stream. Throws: as the base's allocate().
  void* allocate(std::size_t bytes, std::size_t alignment) {
    return memory_resource::allocate(cuda_stream_legacy, bytes, alignment);
  }
  /// Deallocates as deallocate_sync(), because the call names no stream of the work.
  void deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept {
    memory_resource::deallocate_sync(pointer, bytes, alignment);
  }
  void* allocate_async(std::size_t bytes, cuda_stream_view stream) {
    return memory_resource::allocate(stream, bytes);
  }
  void deallocate_async(void* pointer, std::size_t bytes, cuda_stream_view stream) noexcept {
    memory_resource::deallocate(stream, pointer, bytes);
  }
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda_stream_view stream) {
    return memory_resource::allocate(stream, bytes, alignment);
  }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t alignment,
                        cuda_stream_view stream) noexcept {
    memory_resource::deallocate(stream, pointer, bytes, alignment);
  }

  friend bool operator==(const device_memory_resource& a,
                         const device_memory_resource& b) noexcept {
    return a.is_equal(b);
  }
  friend bool operator!=(const device_memory_resource& a,
                         const device_memory_resource& b) noexcept {
    return !(a == b);
  }

 protected:
  virtual void* do_allocate(std::size_t bytes, cuda_stream_view stream) = 0;
  /// Exceptions are reported to the error handler.
  virtual void do_deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream) = 0;
  [[nodiscard]] virtual bool do_is_equal(const device_memory_resource& other) const noexcept {
    return this == &other;
  }

 private:
  /// Throws: unsupported beyond 256, because hipMM's interface has no alignment.
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
};

class forwarding_resource : public device_memory_resource {
 protected:
  [[nodiscard]] virtual memory_resource& target() const noexcept = 0;

  void* do_allocate(std::size_t bytes, cuda_stream_view stream) final;
  void do_deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream) final;
  [[nodiscard]] bool do_is_equal(const device_memory_resource& other) const noexcept final;

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) final;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept final;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) final;
  void do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept final;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept final;
  [[nodiscard]] std::optional<device_ref> do_device() const noexcept final;
  [[nodiscard]] bool do_is_device_accessible() const noexcept final;
  [[nodiscard]] bool do_is_host_accessible() const noexcept final;
};

template <typename Resource>
class resource_of : public forwarding_resource {
 public:
  template <typename... Args>
  explicit resource_of(std::in_place_t, Args&&... args) : resource_{std::forward<Args>(args)...} {}

  [[nodiscard]] Resource& wrapped() const noexcept { return resource_; }

 private:
  [[nodiscard]] memory_resource& target() const noexcept final { return resource_; }

  mutable Resource resource_;
};

class cuda_memory_resource final : public resource_of<hipvmm::mr::hip_resource> {
 public:
  cuda_memory_resource() : resource_of{std::in_place, device_ref::current()} {}
};

class managed_memory_resource final : public resource_of<hipvmm::mr::managed_resource> {
 public:
  managed_memory_resource() : resource_of{std::in_place} {}
};

/// A system_resource of the current device. Throws: unsupported if kernels cannot access it.
class system_memory_resource final : public resource_of<hipvmm::mr::system_resource> {
 public:
  system_memory_resource() : resource_of{std::in_place, device_ref::current()} {}
};
class sam_headroom_memory_resource final : public resource_of<hipvmm::mr::sam_headroom_resource> {
 public:
  explicit sam_headroom_memory_resource(std::size_t headroom)
      : resource_of{std::in_place, device_ref::current(), headroom} {}
};

/// Differs from hipMM's, which initially allocates half of the free memory: this one allocates none
/// unless `initial_pool_size` is given.
class cuda_async_memory_resource final : public resource_of<hipvmm::mr::hip_async_resource> {
 public:
  enum class allocation_handle_type { none, posix_file_descriptor };

  explicit cuda_async_memory_resource(std::optional<std::size_t> initial_pool_size = {},
                                      std::optional<std::size_t> release_threshold = {},
                                      std::optional<allocation_handle_type> handle = {});
  [[nodiscard]] ihipMemPoolHandle_t* pool_handle() const noexcept { return wrapped().get(); }
};

class cuda_async_view_memory_resource final : public resource_of<hipvmm::mr::hip_async_resource> {
 public:
  explicit cuda_async_view_memory_resource(ihipMemPoolHandle_t* pool)
      : resource_of{std::in_place, device_ref::current(), pool} {}
  [[nodiscard]] ihipMemPoolHandle_t* pool_handle() const noexcept { return wrapped().get(); }
};

using host_memory_resource = std::pmr::memory_resource;

/// A hipvmm resource of host memory that is also a std::pmr::memory_resource; functions called on
/// it directly are those of std::pmr. Two are equal, and a copy is a separate resource.
template <typename Resource>
class host_resource_of final : public resource_of<Resource>, public hipvmm::mr::std_pmr_adaptor {
 public:
  host_resource_of() : resource_of<Resource>{std::in_place}, std_pmr_adaptor{&this->wrapped()} {}
  host_resource_of(const host_resource_of&) : host_resource_of{} {}
  host_resource_of& operator=(const host_resource_of&) = delete;
  ~host_resource_of() override = default;

  using host_memory_resource::allocate;
  using host_memory_resource::deallocate;
  using host_memory_resource::is_equal;
  friend bool operator==(const host_resource_of& a, const host_resource_of& b) noexcept {
    return a.is_equal(b);
  }
  friend bool operator!=(const host_resource_of& a, const host_resource_of& b) noexcept {
    return !(a == b);
  }

 private:
  using hipvmm::mr::std_pmr_adaptor::get_upstream_resource;
};
using new_delete_resource = host_resource_of<hipvmm::mr::new_delete_resource>;
using pinned_memory_resource = host_resource_of<hipvmm::mr::pinned_host_resource>;

class pinned_host_memory_resource final : public resource_of<hipvmm::mr::pinned_host_resource> {
 public:
  pinned_host_memory_resource() : resource_of{std::in_place} {}
};

/// As the functions of hipvmm::mr.
/// - A resource without hipMM's interface, such as the initial one, is returned as a wrapper that
///   forwards to it and lives as long as the process.
/// - A resource set by these functions may end while it is set: it is returned, not dereferenced.
[[nodiscard]] device_memory_resource* get_per_device_resource(cuda_device_id device);
device_memory_resource* set_per_device_resource(cuda_device_id device,
                                                hipvmm::mr::memory_resource* resource);
[[nodiscard]] device_memory_resource* get_current_device_resource();
device_memory_resource* set_current_device_resource(hipvmm::mr::memory_resource* resource);

/// The same by reference; reset restores the initial resource.
[[nodiscard]] device_async_resource_ref get_per_device_resource_ref(cuda_device_id device);
device_async_resource_ref set_per_device_resource_ref(cuda_device_id device,
                                                      device_async_resource_ref resource);
device_async_resource_ref reset_per_device_resource_ref(cuda_device_id device);
[[nodiscard]] device_async_resource_ref get_current_device_resource_ref();
device_async_resource_ref set_current_device_resource_ref(device_async_resource_ref resource);
device_async_resource_ref reset_current_device_resource_ref();

}  // namespace hipvmm::hipmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory_resource>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// Adapts a resource with host-accessible memory to std::pmr::memory_resource.
/// - It allocates by allocate_sync() and deallocates by deallocate_sync(), so a container that
///   deallocates while devices use the memory waits as the upstream does.
/// - It does not own the upstream, which must outlive it. It is as thread-safe as the upstream.
/// - Differs from the upstream: it returns an address for zero bytes.
class std_pmr_adaptor : public std::pmr::memory_resource {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr, or not for the host.
  explicit std_pmr_adaptor(mr::memory_resource* upstream);

  [[nodiscard]] mr::memory_resource* get_upstream_resource() const noexcept { return upstream_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  mr::memory_resource* upstream_;
};

/// Adapts a std::pmr::memory_resource to a resource of host memory that kernels may not use.
/// - The upstream is not owned. It must outlive this, and be thread-safe if several threads use it.
/// - It waits before it deallocates as new_delete_resource does. If the wait fails or the upstream
///   throws, the memory stays allocated, and the error handler gets a report.
/// - Throws the exceptions of the upstream.
class from_std_pmr_resource final : public memory_resource {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr.
  explicit from_std_pmr_resource(std::pmr::memory_resource* upstream);

  [[nodiscard]] std::pmr::memory_resource* get_upstream_resource() const noexcept {
    return upstream_;
  }

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const mr::memory_resource& other) const noexcept override;
  [[nodiscard]] bool do_is_device_accessible() const noexcept override { return false; }
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  std::pmr::memory_resource* upstream_;
};

}  // namespace hipvmm::mr

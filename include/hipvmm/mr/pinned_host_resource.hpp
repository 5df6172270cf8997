// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// How memory of the host is pinned; names and meaning are those of hipHostMalloc's flags. ROCm and
/// CUDA with one address space for all, which is every 64-bit one, pin all memory portable and
/// mapped.
struct pinned_options {
  bool portable = false;        ///< for all devices, not only the current one
  bool mapped = false;          ///< for kernels
  bool write_combined = false;  ///< quick for devices to read, slow for the host to read
};

/// Memory of the host that stays where it is (hipHostMalloc): the host, copies and the kernels of
/// all devices use it, and copies to and from it do not wait. Two are equal.
/// Cost: hipHostMalloc takes longer than hipMalloc. The caller waits, deallocate() for its stream
/// and deallocate_sync() for all devices, and then for hipHostFree, which waits for one or all.
/// Where a device cannot be waited for, and in a stream that is being captured, the memory stays
/// allocated and the error handler is told.
class pinned_host_resource final : public memory_resource {
 public:
  explicit pinned_host_resource(const pinned_options& options = {}) noexcept : options_{options} {}

  [[nodiscard]] const pinned_options& options() const noexcept { return options_; }

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override;
  [[nodiscard]] bool do_is_host_accessible() const noexcept override { return true; }

  pinned_options options_;
};

}  // namespace hipvmm::mr

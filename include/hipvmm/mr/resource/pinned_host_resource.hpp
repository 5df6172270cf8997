// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::mr {

/// The flags of hipHostMalloc. ROCm, and CUDA with a unified address space (every 64-bit one), make
/// all pinned memory portable and mapped.
struct pinned_options {
  bool portable = false;        ///< for all devices, not only the current one
  bool mapped = false;          ///< for kernels
  bool write_combined = false;  ///< fast for devices to read, slow for the host to read
};

/// Allocates pinned host memory (hipHostMalloc): the host, copies and the kernels of all devices
/// may use it, and copies to and from it do not wait. Two are equal.
/// Cost: hipHostMalloc takes longer than hipMalloc. deallocate() waits for its stream and
/// deallocate_sync() for all devices; then both wait for hipHostFree, which waits for one device or
/// all. Failures are those of new_delete_resource.
class pinned_host_resource final : public memory_resource {
 public:
  explicit pinned_host_resource(const pinned_options& options = {}) noexcept : options_{options} {}

  [[nodiscard]] const pinned_options& options() const noexcept { return options_; }

 private:
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

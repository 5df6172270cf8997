// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <mutex>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Lets one thread at a time allocate from its upstream or give back: for resources of a program's
/// own that know nothing of threads; those of hipvmm need none. Threads wait for each other's HIP
/// calls, and nobody else may use the upstream. What the upstream calls back in the same thread may
/// use this adaptor; it must not wait for another thread that does, so an adaptor that calls back
/// belongs above this one. device() and what is accessible are asked without the lock.
class thread_safe_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr.
  explicit thread_safe_resource_adaptor(memory_resource* upstream);

 private:
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                     std::size_t alignment) noexcept override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate_sync(void* pointer, std::size_t bytes,
                          std::size_t alignment) noexcept override;

  std::recursive_mutex lock_;
};

}  // namespace hipvmm::mr

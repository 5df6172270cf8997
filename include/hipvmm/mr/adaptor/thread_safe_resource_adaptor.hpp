// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <mutex>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Serializes all allocations and deallocations of its upstream by a lock: for resources of a
/// program that are not thread-safe; those of hipvmm do not need it.
/// - Threads wait for each other's HIP calls.
/// - Nothing else may use the upstream.
/// - Callbacks of the upstream in the same thread may use this adaptor. They must not wait for
///   another thread that uses it, so an adaptor with callbacks belongs above this one.
/// - device() and the accessibility queries do not take the lock.
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

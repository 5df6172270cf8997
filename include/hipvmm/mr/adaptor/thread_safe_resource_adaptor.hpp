// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Serializes all allocations and deallocations of its upstream by a lock, HIP calls included: for
/// resources of a program that are not thread-safe; those of hipvmm do not need it.
/// - Nothing else may use the upstream. Only device() and accessibility queries take no lock.
/// - Callbacks of the upstream in the same thread may use this adaptor. They must not wait for
///   another thread that uses it, so an adaptor with callbacks belongs above this one.
class thread_safe_resource_adaptor final : public resource_adaptor {
 public:
  explicit thread_safe_resource_adaptor(memory_resource* upstream);

 private:
  void* do_allocate_any(const request& wanted) override;
  void do_deallocate_any(void* pointer, const request& freed) noexcept override;

  std::recursive_mutex lock_;
};

}  // namespace hipvmm::mr

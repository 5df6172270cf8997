// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Prefetches each allocation to a device (prefetch_async): the upstream's or, because managed
/// memory belongs to none, the current device of the allocating thread.
/// - For memory that HIP migrates: managed_resource's, or a pool's over that. Other memory is
///   refused; RMM's adaptor ignores it.
/// Cost: a HIP call for each allocation; allocate_sync() makes a stream and waits for it.
class prefetch_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument if the host cannot use the memory, which is never managed then.
  explicit prefetch_resource_adaptor(memory_resource* upstream);

 private:
  /// Throws: as prefetch_async, for example std::invalid_argument for memory that HIP cannot move;
  /// the memory is then deallocated.
  void* do_allocate_any(const request& wanted) override;
};

}  // namespace hipvmm::mr

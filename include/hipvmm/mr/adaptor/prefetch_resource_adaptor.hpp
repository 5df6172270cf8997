// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Prefetches each allocation to a device (prefetch_async).
/// - The device is the upstream's or, because managed memory belongs to none, the current device of
///   the allocating thread.
/// - For memory that HIP migrates: managed_resource's, or a pool's over that.
/// - Differs from RMM's, which ignores memory that cannot be migrated: here that is refused.
/// Cost: a HIP call for each allocation; allocate_sync() makes a stream and waits for it.
class prefetch_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `upstream` gives memory that the host cannot use, which is
  /// never managed.
  explicit prefetch_resource_adaptor(memory_resource* upstream);

 private:
  /// Throws: as prefetch_async, for example std::invalid_argument for memory that the host can use
  /// and HIP cannot move; the memory has then been deallocated to the upstream.
  void* do_allocate_any(const request& wanted) override;
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/resource_adaptor.hpp>

namespace hipvmm::mr {

/// Moves what it gives to a device ahead of its use (prefetch_async): to the upstream's, or, as
/// managed memory belongs to none, to the current one of the thread that asks. For memory that HIP
/// moves by itself, managed_resource's or a pool's over that. Differs from RMM's, which does
/// nothing where memory cannot be moved: that is refused here.
/// Cost: a HIP call for each allocation; allocate_sync() makes a stream and waits for it.
class prefetch_resource_adaptor final : public resource_adaptor {
 public:
  /// Throws: std::invalid_argument when `upstream` is nullptr or gives memory that the host cannot
  /// use, which is never managed.
  explicit prefetch_resource_adaptor(memory_resource* upstream);

 private:
  /// Throws: what prefetch_async does, such as std::invalid_argument for memory that the host can
  /// use and HIP cannot move; then the upstream has it back.
  void* do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) override;
  void* do_allocate_sync(std::size_t bytes, std::size_t alignment) override;
};

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#pragma once

// Umpire over a resource of hipvmm: a strategy, Umpire's name for an allocator's way to allocate.
// A header to copy into a program; written for Umpire 2024.07 and newer. CI has no Umpire.
#include <umpire/strategy/AllocationStrategy.hpp>
#include <umpire/util/MemoryResourceTraits.hpp>
#include <umpire/util/Platform.hpp>

#include <cstddef>
#include <string>

#include <hipvmm/mr/memory_resource.hpp>

/// Passes Umpire's allocations to a resource, which must live longer than Umpire's allocator.
/// - Umpire's interface has no stream: memory may be used by any stream at once, and deallocation
///   is as safe as hipFree. A pool does not wait for it, but reuses the memory only when the work
///   submitted so far has passed.
/// - Umpire must track the allocations, as it does unless told otherwise: only then it passes their
///   sizes.
class hipvmm_strategy final : public umpire::strategy::AllocationStrategy {
 public:
  /// An argument of makeAllocator(), which writes it as text to Umpire's record of events.
  /// The platform decides by which calls Umpire copies and sets the memory.
  struct memory {
    hipvmm::mr::memory_resource* resource;
    umpire::Platform platform;
    friend std::string to_string(const memory&) { return "hipvmm"; }
  };

  hipvmm_strategy(const std::string& name, int id, memory from)
      : AllocationStrategy{name, id, nullptr, "hipvmm"},
        resource_{from.resource},
        platform_{from.platform} {}

  umpire::Platform getPlatform() noexcept override { return platform_; }
  umpire::MemoryResourceTraits getTraits() const noexcept override {
    umpire::MemoryResourceTraits traits;
    traits.resource = resource_->is_device_accessible()
                          ? umpire::MemoryResourceTraits::resource_type::device
                          : umpire::MemoryResourceTraits::resource_type::host;
    return traits;
  }

 private:
  void* allocate(std::size_t bytes) override { return resource_->allocate_sync(bytes); }
  void deallocate(void* pointer, std::size_t bytes) override {
    resource_->deallocate_sync(pointer, bytes);
  }

  hipvmm::mr::memory_resource* resource_;
  umpire::Platform platform_;
};

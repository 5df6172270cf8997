// SPDX-License-Identifier: MIT
// Umpire's pools and arrays over a pool of hipvmm. Not built by CMake: CI has no Umpire.
#include <umpire/Allocator.hpp>
#include <umpire/ResourceManager.hpp>
#include <umpire/strategy/QuickPool.hpp>

#include <cstddef>
#include <cstdio>

#include <hipvmm/pool.hpp>

#include "umpire_strategy.hpp"

int main() {
  // Umpire deallocates its remaining memory when the process ends, so the pool is never destroyed.
  static auto& pool = *new hipvmm::mr::vmm_pool_resource{hipvmm::device_ref{0}};
  auto& manager = umpire::ResourceManager::getInstance();
#if defined(UMPIRE_ENABLE_HIP)
  constexpr auto platform = umpire::Platform::hip;
#elif defined(UMPIRE_ENABLE_CUDA)
  constexpr auto platform = umpire::Platform::cuda;
#else
  constexpr auto platform = umpire::Platform::host;  // for hipvmm's host provider
#endif
  umpire::Allocator device =
      manager.makeAllocator<hipvmm_strategy>("hipvmm", hipvmm_strategy::memory{&pool, platform});
  void* const numbers = device.allocate(1000 * sizeof(double));
  manager.memset(numbers, 0);
  device.deallocate(numbers);

  // A pool of Umpire's on top needs no change, but hipvmm's pool is one already.
  umpire::Allocator quick =
      manager.makeAllocator<umpire::strategy::QuickPool>("quick", device, std::size_t{1} << 20);
  quick.deallocate(quick.allocate(100));
  std::printf("%zu bytes in use\n", device.getCurrentSize());
}

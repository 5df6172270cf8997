// SPDX-License-Identifier: MIT
// Resources that run out get the chunks of chunk_cache::shared().
#include <hipvmm/vmm/chunk_cache.hpp>

#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/region/shared_cache.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

/// While it lives, chunk_cache::shared() keeps half of the first device's free memory.
struct half_kept {
  half_kept() {
    chunk_cache::shared().recycle(chunk_cache::shared().acquire(first_device, bytes));
    REQUIRE(kept() == bytes);
  }
  [[nodiscard]] static std::size_t kept() {
    return chunk_cache::shared().statistics(first_device).bytes;
  }

  shared_cache_keeps keeps;
  std::size_t bytes = align_down(first_device.free_memory() / 2, granule());
  /// More than is free now, and less than without the cache.
  std::size_t too_much = align_down(bytes + bytes / 2, granule());
};

/// Checks that `resource` allocates a block that needs the kept memory.
void check_gets_it(mr::memory_resource& resource) {
  const half_kept half;
  const stream stream{first_device};
  void* const pointer = resource.allocate(stream, half.too_much);
  CHECK(half_kept::kept() == 0);
  resource.deallocate(stream, pointer, half.too_much);
  stream.synchronize();
}

TEST_CASE("hip_resource: gets what the shared chunk cache keeps") {
  mr::hip_resource resource{first_device};
  check_gets_it(resource);
}

TEST_CASE("hip_async_resource: gets what the shared chunk cache keeps") {
  HIPVMM_SKIP_IF(!first_device.supports_memory_pools(), "the device has no pools");
  mr::hip_async_resource resource{first_device};
  check_gets_it(resource);
}

TEST_CASE("vmm_pool_resource: gets what the shared chunk cache keeps") {
  mr::vmm_pool_resource resource{first_device};
  check_gets_it(resource);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

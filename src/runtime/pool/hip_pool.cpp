// SPDX-License-Identifier: MIT
#include "runtime/pool/hip_pool.hpp"

#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/runtime_rules.hpp"

namespace hipvmm::detail {

void require_pools(device_ref device) {
  if (!device.supports_memory_pools())
    throw unsupported{"device " + std::to_string(device.ordinal()) +
                      " offers no stream-ordered pools (hipMallocAsync); ROCm has them from 6.2 "
                      "on. Use another resource"};
}

std::unique_lock<std::shared_mutex> lock_for_pool_change() {
  return rules_of_runtime().pools_change_beside_frees ? std::unique_lock<std::shared_mutex>{}
                                                      : keep_pool_searches_out();
}

hipMemPool_t create_pool(device_ref device, hipMemAllocationHandleType shareable) {
  require_pools(device);
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.handleTypes = shareable;
  properties.location = {hipMemLocationTypeDevice, device.ordinal()};
  hipMemPool_t pool = nullptr;
  const auto alone = lock_for_pool_change();
  check(hipMemPoolCreate(&pool, &properties), "hipMemPoolCreate");
  return pool;
}

void destroy_pool(hipMemPool_t pool) noexcept {
  const auto destroy = [pool] {
    std::unique_lock<std::shared_mutex> alone;
    report_exceptions([&alone] { alone = lock_for_pool_change(); });
    return hipMemPoolDestroy(pool);
  };
  static_cast<void>(release_or_keep(destroy, "hipMemPoolDestroy", true));
}

hipError_t allocate_from(hipMemPool_t pool, stream_ref stream, std::size_t bytes,
                         void*& pointer) noexcept {
  return hipMallocFromPoolAsync(&pointer, bytes, pool, stream.get());
}

hipError_t free_in(stream_ref stream, void* pointer) noexcept {
  const pool_search searches;
  return hipFreeAsync(pointer, stream.get());
}

void free_async(stream_ref stream, void* pointer) noexcept {
  report(free_in(stream, pointer), "hipFreeAsync");
}

bool try_free_async(stream_ref stream, void* pointer, bool reports) noexcept {
  const hipError_t result = free_in(stream, pointer);
  if (reports && result != hipErrorStreamCaptureUnsupported)
    report(result, "hipFreeAsync");
  else if (result != hipSuccess)
    clear_last_error();
  return is_released(result);
}

}  // namespace hipvmm::detail

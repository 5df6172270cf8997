// SPDX-License-Identifier: MIT
#include "memory/memory.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/call.hpp"
#include "base/call_delay.hpp"

namespace hipvmm::cuda_provider {
namespace {

// Flags of hipExtMallocWithFlags. Only AMD lets a program choose how far devices see each other's
// writes. Memory for signals is 8 bytes of the host.
constexpr unsigned most_extended_flags = 4;
constexpr std::size_t signal_bytes = 8;

/// Memory for signals: host memory that hipFree frees. Thread-safe.
class signal_list {
 public:
  /// Throws: std::bad_alloc; the memory has been freed then.
  void note(void* start) {
    const std::lock_guard lock{mutex_};
    try {
      starts_.push_back(start);
    } catch (...) {
      static_cast<void>(cuMemFreeHost(start));
      throw;
    }
  }
  bool has(void* start) noexcept {
    const std::lock_guard lock{mutex_};
    return std::ranges::find(starts_, start) != starts_.end();
  }
  void forget(void* start) noexcept {
    const std::lock_guard lock{mutex_};
    std::erase(starts_, start);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> starts_;
};

// Never destroyed: programs free memory while they end.
signal_list& signals() {
  static signal_list& only = *new signal_list;
  return only;
}

}  // namespace

bool is_stream_ordered(CUdeviceptr start) {
  if (signals().has(to_pointer(start))) return false;
  CUmemoryPool pool = nullptr;
  check(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, start));
  if (pool != nullptr) return true;
  // The driver reports no pool for a graph's memory. It is neither managed nor of cuMemAlloc, the
  // one kind with a legacy IPC handle.
  unsigned plain = 0;
  unsigned managed = 0;
  check(cuPointerGetAttribute(&plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, start));
  check(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, start));
  return plain == 0 && managed == 0;
}

void free_now(driver& machine, CUdeviceptr start) {
  void* const pointer = to_pointer(start);
  if (signals().has(pointer)) {
    machine.wait_all();  // may be refused: the memory stays
    check(cuMemFreeHost(pointer));
    signals().forget(pointer);
    return;
  }
  // CUDA frees such memory at once, even while it is in use; for the rest it waits.
  if (is_stream_ordered(start)) machine.wait_all();
  check(cuMemFree(start));
}

}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMalloc(void** pointer, size_t bytes) {
  return call([&](driver&) {
    require(pointer != nullptr);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    delay(priced_call::allocate);
    CUdeviceptr start = 0;
    check(cuMemAlloc(&start, bytes));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipExtMallocWithFlags(void** pointer, size_t bytes, unsigned int flags) {
  return call([&](driver&) {
    require(pointer != nullptr && flags <= most_extended_flags);
    const bool is_for_signals = flags == hipMallocSignalMemory;
    require(!is_for_signals || bytes == signal_bytes);
    *pointer = nullptr;
    if (bytes == 0) return hipSuccess;
    if (is_for_signals) {
      check(cuMemHostAlloc(pointer, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
      signals().note(*pointer);
      return hipSuccess;
    }
    CUdeviceptr start = 0;
    check(cuMemAlloc(&start, bytes));
    *pointer = to_pointer(start);
    return hipSuccess;
  });
}

hipError_t hipFree(void* pointer) {
  return call_anywhere([&](driver& machine) {
    if (pointer == nullptr) return hipSuccess;
    free_now(machine, to_cuda(pointer));
    return hipSuccess;
  });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return call([&](driver&) {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cuMemGetInfo(&free, &total));
    if (free_bytes != nullptr) *free_bytes = free;
    if (total_bytes != nullptr) *total_bytes = total;
    return hipSuccess;
  });
}

// SPDX-License-Identifier: MIT
// The library's own calls of replaced functions. The linker sends them here (--wrap): by their
// names they would reach the replacement again, in threads of the library too.
#include "preload/real_hip.hpp"

#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace hipvmm::preload {
namespace {

/// Searches this library's own handle, which reaches the provider before any other HIP.
void* look_up(const char* name) noexcept {
  Dl_info own{};
  void* handle = nullptr;
  if (dladdr(reinterpret_cast<const void*>(&own_free), &own) != 0)
    handle = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* const found = handle == nullptr ? nullptr : dlsym(handle, name);
  if (found == nullptr) {
    std::fprintf(stderr, "hipvmm_preload: the program cannot go on: HIP has no %s\n", name);
    std::abort();
  }
  return found;
}

/// Looked up once. A static variable would hold a lock meanwhile, see core_loader.hpp.
template <typename Function>
class real_function {
 public:
  explicit constexpr real_function(const char* name) noexcept : name_{name} {}
  [[nodiscard]] Function get() noexcept {
    void* known = found_.load(std::memory_order_acquire);
    if (known == nullptr) found_.store(known = look_up(name_), std::memory_order_release);
    return reinterpret_cast<Function>(known);
  }

 private:
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

constinit real_function<hipError_t (*)(void**, std::size_t)> real_malloc{"hipMalloc"};
constinit real_function<hipError_t (*)(void*)> real_free{"hipFree"};
constinit real_function<hipError_t (*)(void*, hipStream_t)> real_free_async{"hipFreeAsync"};
constinit real_function<hipError_t (*)(std::size_t*, std::size_t*)> real_info{"hipMemGetInfo"};
constinit real_function<hipError_t (*)(hipDeviceptr_t*, std::size_t*, hipDeviceptr_t)> real_range{
    "hipMemGetAddressRange"};
constinit real_function<hipError_t (*)(hipIpcMemHandle_t*, void*)> real_ipc{"hipIpcGetMemHandle"};
constinit real_function<hipError_t (*)(int, hipMemPool_t)> real_set_pool{"hipDeviceSetMemPool"};
constinit real_function<hipError_t (*)(hipStream_t)> real_destroy{"hipStreamDestroy"};

}  // namespace

void* own_free() noexcept { return reinterpret_cast<void*>(real_free.get()); }

}  // namespace hipvmm::preload

using namespace hipvmm::preload;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

hipError_t __wrap_hipMalloc(void** pointer, std::size_t bytes) {
  return real_malloc.get()(pointer, bytes);
}

hipError_t __wrap_hipFree(void* pointer) { return real_free.get()(pointer); }

hipError_t __wrap_hipFreeAsync(void* pointer, hipStream_t stream) {
  return real_free_async.get()(pointer, stream);
}

hipError_t __wrap_hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return real_ipc.get()(handle, pointer);
}

hipError_t __wrap_hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return real_info.get()(free, total);
}

hipError_t __wrap_hipMemGetAddressRange(hipDeviceptr_t* base, std::size_t* bytes,
                                        hipDeviceptr_t pointer) {
  return real_range.get()(base, bytes, pointer);
}

hipError_t __wrap_hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  return real_set_pool.get()(device, pool);
}

hipError_t __wrap_hipStreamDestroy(hipStream_t stream) { return real_destroy.get()(stream); }
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// SPDX-License-Identifier: MIT
// HIP's names that are replaced. Programs reach them before HIP's own, because LD_PRELOAD puts this
// library first; programs that look a name up in HIP's library by dlsym do not.
#include <atomic>

#include "preload/core_loader.hpp"

namespace hipvmm::preload {
namespace {

// hipErrorNotInitialized
constexpr int no_hip = 3;

struct hip_calls {
  real_calls real{};
  int (*destroy_stream)(void*) = nullptr;
  int (*reset_device)() = nullptr;
  int (*set_pool)(int, void*) = nullptr;
  const core_calls* core = nullptr;  // null: nothing is replaced
};

// Written once, by the first call that finds HIP.
hip_calls known;
enum class progress : unsigned char { open, writing, done };
std::atomic<progress> finding{progress::open};

template <typename Function>
void set(Function& to, const char* name, const void* caller) noexcept {
  to = reinterpret_cast<Function>(find_real(name, caller));
}

hip_calls find(const void* caller) noexcept {
  hip_calls found;
  set(found.real.allocate, "hipMalloc", caller);
  set(found.real.free, "hipFree", caller);
  set(found.real.allocate_async, "hipMallocAsync", caller);
  set(found.real.free_async, "hipFreeAsync", caller);
  set(found.real.memory_info, "hipMemGetInfo", caller);
  set(found.real.address_range, "hipMemGetAddressRange", caller);
  set(found.real.ipc_handle, "hipIpcGetMemHandle", caller);
  set(found.destroy_stream, "hipStreamDestroy", caller);
  set(found.reset_device, "hipDeviceReset", caller);
  set(found.set_pool, "hipDeviceSetMemPool", caller);
  // A program without HIP may have looked our name up.
  if (found.real.free == nullptr) return found;
  keep_library_of(reinterpret_cast<const void*>(found.real.free));
  const core_calls* const core = load_core();
  if (core != nullptr && core->own_free() == reinterpret_cast<void*>(found.real.free))
    found.core = core;
  return found;
}

const hip_calls& calls_for(const void* caller, hip_calls& own) noexcept {
  if (finding.load(std::memory_order_acquire) == progress::done) return known;
  own = find(caller);
  progress before = progress::open;
  // A caller without HIP, or a dependency of the core, does not decide for later calls.
  if (own.real.free == nullptr || is_loading_core() ||
      !finding.compare_exchange_strong(before, progress::writing))
    return own;
  known = own;
  finding.store(progress::done, std::memory_order_release);
  if (known.core == nullptr && load_core() != nullptr)
    say("nothing is replaced", "the program uses another HIP library than hipvmm was built for");
  return known;
}

template <typename... Arguments>
int call(int (*core_calls::*replaced)(const real_calls&, Arguments...),
         int (*real_calls::*real)(Arguments...), const void* caller, Arguments... arguments) {
  hip_calls own;
  const hip_calls& calls = calls_for(caller, own);
  if (calls.real.*real == nullptr) return no_hip;
  if (calls.core == nullptr) return (calls.real.*real)(arguments...);
  return (calls.core->*replaced)(calls.real, arguments...);
}

}  // namespace
}  // namespace hipvmm::preload

using namespace hipvmm::preload;

#define HIPVMM_CALLER __builtin_return_address(0)

// HIP's functions return an enum and take pointers to structs, which C passes alike.
extern "C" {

int hipMalloc(void** pointer, std::size_t bytes) {
  return call(&core_calls::allocate, &real_calls::allocate, HIPVMM_CALLER, pointer, bytes);
}

int hipFree(void* pointer) {
  return call(&core_calls::free, &real_calls::free, HIPVMM_CALLER, pointer);
}

int hipMallocAsync(void** pointer, std::size_t bytes, void* stream) {
  return call(&core_calls::allocate_async, &real_calls::allocate_async, HIPVMM_CALLER, pointer,
              bytes, stream);
}

int hipFreeAsync(void* pointer, void* stream) {
  return call(&core_calls::free_async, &real_calls::free_async, HIPVMM_CALLER, pointer, stream);
}

int hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(&core_calls::memory_info, &real_calls::memory_info, HIPVMM_CALLER, free, total);
}

int hipMemGetAddressRange(void** base, std::size_t* bytes, void* pointer) {
  return call(&core_calls::address_range, &real_calls::address_range, HIPVMM_CALLER, base, bytes,
              pointer);
}

int hipIpcGetMemHandle(void* handle, void* pointer) {
  return call(&core_calls::ipc_handle, &real_calls::ipc_handle, HIPVMM_CALLER, handle, pointer);
}

int hipStreamDestroy(void* stream) {
  hip_calls own;
  const hip_calls& calls = calls_for(HIPVMM_CALLER, own);
  if (calls.destroy_stream == nullptr) return no_hip;
  if (calls.core != nullptr) calls.core->end_stream(stream);
  return calls.destroy_stream(stream);
}

int hipDeviceReset() {
  hip_calls own;
  const hip_calls& calls = calls_for(HIPVMM_CALLER, own);
  if (calls.reset_device == nullptr) return no_hip;
  if (calls.core != nullptr) calls.core->reset_device(-1);
  return calls.reset_device();
}

int hipDeviceSetMemPool(int device, void* pool) {
  hip_calls own;
  const hip_calls& calls = calls_for(HIPVMM_CALLER, own);
  if (calls.set_pool == nullptr) return no_hip;
  const int result = calls.set_pool(device, pool);
  if (result == 0 && calls.core != nullptr) calls.core->note_pool(device);
  return result;
}
}

// SPDX-License-Identifier: MIT
// CUDA's driver. Nearly no program is linked with it: the CUDA runtime, within a program or as a
// library, and others load it and ask dlsym for cuGetProcAddress and that for all else. So these
// two are replaced, and their results for the functions below.
#include <cstdint>
#include <cstring>

#include "preload/core_loader.hpp"
#include "preload/cuda_names.hpp"

namespace hipvmm::preload {
namespace {

// Set when programs look them up; the core calls only those that a replaced function was called
// for.
real_calls real;
real_calls real_per_thread;
int (*destroy_stream)(void*) = nullptr;
int (*reset_device)(int) = nullptr;
int (*set_pool)(int, void*) = nullptr;

// CU_STREAM_PER_THREAD
void* const per_thread_stream = reinterpret_cast<void*>(std::uintptr_t{2});
// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
constexpr std::uint64_t per_thread_flag = 2;

template <typename... Arguments>
int call(int (*core_calls::*replaced)(const real_calls&, Arguments...),
         int (*real_calls::*passed)(Arguments...), Arguments... arguments) {
  const core_calls* const core = load_core();
  if (core == nullptr) return (real.*passed)(arguments...);
  return (core->*replaced)(real, arguments...);
}

int allocate(void** pointer, std::size_t bytes) {
  return call(&core_calls::allocate, &real_calls::allocate, pointer, bytes);
}
int free(void* pointer) { return call(&core_calls::free, &real_calls::free, pointer); }
int allocate_async(void** pointer, std::size_t bytes, void* stream) {
  return call(&core_calls::allocate_async, &real_calls::allocate_async, pointer, bytes, stream);
}
int free_async(void* pointer, void* stream) {
  return call(&core_calls::free_async, &real_calls::free_async, pointer, stream);
}

/// The real functions take null for the thread's stream here, and the others know it by its number.
int allocate_async_per_thread(void** pointer, std::size_t bytes, void* stream) {
  const core_calls* const core = load_core();
  if (core == nullptr) return real_per_thread.allocate_async(pointer, bytes, stream);
  return core->allocate_async(real_per_thread, pointer, bytes,
                              stream == nullptr ? per_thread_stream : stream);
}
int free_async_per_thread(void* pointer, void* stream) {
  const core_calls* const core = load_core();
  if (core == nullptr) return real_per_thread.free_async(pointer, stream);
  return core->free_async(real_per_thread, pointer, stream == nullptr ? per_thread_stream : stream);
}

int memory_info(std::size_t* free_bytes, std::size_t* total) {
  return call(&core_calls::memory_info, &real_calls::memory_info, free_bytes, total);
}
int address_range(void** base, std::size_t* bytes, void* pointer) {
  return call(&core_calls::address_range, &real_calls::address_range, base, bytes, pointer);
}
int ipc_handle(void* handle, void* pointer) {
  return call(&core_calls::ipc_handle, &real_calls::ipc_handle, handle, pointer);
}
int end_stream(void* stream) {
  if (const core_calls* const core = load_core()) core->end_stream(stream);
  return destroy_stream(stream);
}
int end_device(int device) {
  if (const core_calls* const core = load_core()) core->reset_device(device);
  return reset_device(device);
}

int set_device_pool(int device, void* pool) {
  const int result = set_pool(device, pool);
  if (result != 0) return result;
  if (const core_calls* const core = load_core()) core->note_pool(device);
  return result;
}

// cuCtxCreate, by its version: up to five arguments, each a whole number or a pointer.
using word = std::uintptr_t;
using create_context_type = int (*)(word, word, word, word, word);
create_context_type create_context[5] = {};

/// From the first context of the program's own on nothing is replaced. The CUDA runtime makes none.
template <int Version>
int begin_context(word a, word b, word c, word d, word e) {
  const int result = create_context[Version](a, b, c, d, e);
  if (result != 0) return result;
  if (const core_calls* const core = load_core()) core->note_context();
  return result;
}

using get_address = int (*)(const char* name, void** function, int version, std::uint64_t flags);
using get_address_v2 = int (*)(const char* name, void** function, int version, std::uint64_t flags,
                               void* status);
get_address real_get_address = nullptr;
get_address_v2 real_get_address_v2 = nullptr;

void replace_answer(const char* name, void** function, int version, std::uint64_t flags);

int find_address(const char* name, void** function, int version, std::uint64_t flags) {
  const int result = real_get_address(name, function, version, flags);
  if (result == 0) replace_answer(name, function, version, flags);
  return result;
}
int find_address_v2(const char* name, void** function, int version, std::uint64_t flags,
                    void* status) {
  const int result = real_get_address_v2(name, function, version, flags, status);
  if (result == 0) replace_answer(name, function, version, flags);
  return result;
}

/// A function by its name in the library, and by its name for cuGetProcAddress.
struct replaced_name {
  const char* symbol;
  const char* base;
  void* function;
  void** real;
};

template <typename Function>
replaced_name entry(const char* symbol, const char* base, Function function, Function& to) {
  return {symbol, base, reinterpret_cast<void*>(function), reinterpret_cast<void**>(&to)};
}

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

/// Ours for the first entry that `matches`, else `found`.
template <typename Matches>
void* replace(void* found, Matches matches) noexcept {
  const replaced_name names[] = {
      entry("cuMemAlloc_v2", "cuMemAlloc", &allocate, real.allocate),
      entry("cuMemFree_v2", "cuMemFree", &free, real.free),
      entry("cuMemAllocAsync", "cuMemAllocAsync", &allocate_async, real.allocate_async),
      entry("cuMemAllocAsync_ptsz", "", &allocate_async_per_thread, real_per_thread.allocate_async),
      entry("cuMemFreeAsync", "cuMemFreeAsync", &free_async, real.free_async),
      entry("cuMemFreeAsync_ptsz", "", &free_async_per_thread, real_per_thread.free_async),
      entry("cuMemGetInfo_v2", "cuMemGetInfo", &memory_info, real.memory_info),
      entry("cuMemGetAddressRange_v2", "cuMemGetAddressRange", &address_range, real.address_range),
      entry("cuIpcGetMemHandle", "cuIpcGetMemHandle", &ipc_handle, real.ipc_handle),
      entry("cuStreamDestroy_v2", "cuStreamDestroy", &end_stream, destroy_stream),
      entry("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", &end_device, reset_device),
      entry("cuDeviceSetMemPool", "cuDeviceSetMemPool", &set_device_pool, set_pool),
      entry("cuCtxCreate", "", &begin_context<1>, create_context[1]),
      entry("cuCtxCreate_v2", "", &begin_context<2>, create_context[2]),
      entry("cuCtxCreate_v3", "", &begin_context<3>, create_context[3]),
      entry("cuCtxCreate_v4", "", &begin_context<4>, create_context[4]),
      entry("cuGetProcAddress", "", &find_address, real_get_address),
      entry("cuGetProcAddress_v2", "", &find_address_v2, real_get_address_v2),
  };
  for (const replaced_name& each : names) {
    if (!matches(each)) continue;
    // The same for all callers.
    if (found != each.function) __atomic_store_n(each.real, found, __ATOMIC_RELEASE);
    return each.function;
  }
  return found;
}

void replace_answer(const char* name, void** function, int version, std::uint64_t flags) {
  // Before 3.2 sizes had 32 bits.
  if (name == nullptr || function == nullptr || *function == nullptr || version < 3020) return;
  if (is(name, "cuGetProcAddress")) {
    *function = replace_driver_function(
        version >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress", *function);
    return;
  }
  if (is(name, "cuCtxCreate")) {
    *function = replace_driver_function(version >= 12050   ? "cuCtxCreate_v4"
                                        : version >= 11040 ? "cuCtxCreate_v3"
                                                           : "cuCtxCreate_v2",
                                        *function);
    return;
  }
  const bool per_thread = (flags & per_thread_flag) != 0;
  if (per_thread && is(name, "cuMemAllocAsync")) name = "cuMemAllocAsync_ptsz";
  if (per_thread && is(name, "cuMemFreeAsync")) name = "cuMemFreeAsync_ptsz";
  *function = replace(*function, [name](const replaced_name& each) {
    return is(name, each.base) || is(name, each.symbol);
  });
}

}  // namespace

void* replace_driver_function(const char* symbol, void* found) noexcept {
  return replace(found, [symbol](const replaced_name& each) { return is(symbol, each.symbol); });
}

}  // namespace hipvmm::preload

// SPDX-License-Identifier: MIT
// CUDA's driver. Nearly no program is linked with it. The CUDA runtime, within a program or as a
// library, and others load it and ask dlsym for cuGetProcAddress, and cuGetProcAddress for all
// else. So these two are replaced, and their results for the functions below.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "preload/core_loader.hpp"

namespace hipvmm::preload {
namespace {

// Set when programs look them up. The core calls only the one whose replacement called it.
real_calls real;
real_calls real_per_thread;
int (*destroy_stream)(void*) = nullptr;
int (*reset_device)(int) = nullptr;
int (*set_pool)(int, void*) = nullptr;

// CU_STREAM_PER_THREAD
void* const per_thread_stream = reinterpret_cast<void*>(std::uintptr_t{2});
// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
constexpr std::uint64_t per_thread_flag = 2;

template <auto Replaced, auto Passed>
struct redirected;
template <typename... Arguments, int (*core_calls::*Replaced)(const real_calls&, Arguments...),
          int (*real_calls::*Passed)(Arguments...)>
struct redirected<Replaced, Passed> {
  static int call(Arguments... arguments) {
    const core_calls* const core = load_core();
    if (core == nullptr) return (real.*Passed)(arguments...);
    return (core->*Replaced)(real, arguments...);
  }
};

/// Null is the thread's stream here; all other functions know that by its number.
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

// cuCtxCreate, by its version: up to five arguments, each a whole number or a pointer. From the
// program's first call on nothing is replaced; the CUDA runtime makes none.
using word = std::uintptr_t;
using create_context_type = int (*)(word, word, word, word, word);
create_context_type create_context[5] = {};

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

void* replace_driver_function(const char* symbol, void* found) noexcept;
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

template <auto Replaced, auto Passed>
replaced_name redirect(const char* symbol, const char* base) {
  return entry(symbol, base, &redirected<Replaced, Passed>::call, real.*Passed);
}

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

template <typename Matches>
void* replace(void* found, Matches matches) noexcept {
  const replaced_name names[] = {
      redirect<&core_calls::allocate, &real_calls::allocate>("cuMemAlloc_v2", "cuMemAlloc"),
      redirect<&core_calls::free, &real_calls::free>("cuMemFree_v2", "cuMemFree"),
      redirect<&core_calls::allocate_async, &real_calls::allocate_async>("cuMemAllocAsync",
                                                                         "cuMemAllocAsync"),
      entry("cuMemAllocAsync_ptsz", "", &allocate_async_per_thread, real_per_thread.allocate_async),
      redirect<&core_calls::free_async, &real_calls::free_async>("cuMemFreeAsync",
                                                                 "cuMemFreeAsync"),
      entry("cuMemFreeAsync_ptsz", "", &free_async_per_thread, real_per_thread.free_async),
      redirect<&core_calls::memory_info, &real_calls::memory_info>("cuMemGetInfo_v2",
                                                                   "cuMemGetInfo"),
      redirect<&core_calls::address_range, &real_calls::address_range>("cuMemGetAddressRange_v2",
                                                                       "cuMemGetAddressRange"),
      redirect<&core_calls::ipc_handle, &real_calls::ipc_handle>("cuIpcGetMemHandle",
                                                                 "cuIpcGetMemHandle"),
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
    if (found != each.function) __atomic_store_n(each.real, found, __ATOMIC_RELEASE);
    return each.function;
  }
  return found;
}

void replace_answer(const char* name, void** function, int version, std::uint64_t flags) {
  // Before CUDA 3.2 sizes had 32 bits.
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

void* replace_driver_function(const char* symbol, void* found) noexcept {
  return replace(found, [symbol](const replaced_name& each) { return is(symbol, each.symbol); });
}

// The result of dlsym for RTLD_NEXT depends on the caller. So our dlsym jumps to the real one, with
// the caller's return address, for all names but the driver's.

using dlsym_type = void* (*)(void* handle, const char* name);

dlsym_type real_dlsym = nullptr;

void find_real_dlsym() noexcept {
  // The version that it has in the C library, by machine and age.
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    real_dlsym = reinterpret_cast<dlsym_type>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (real_dlsym != nullptr) return;
  }
  say("the program cannot run", "the C library has no dlsym");
  __builtin_trap();
}

void* dlsym_of_driver(void* handle, const char* name) noexcept {
  void* const found = real_dlsym(handle, name);
  return found == nullptr ? nullptr : replace_driver_function(name, found);
}

}  // namespace
}  // namespace hipvmm::preload

using namespace hipvmm::preload;

extern "C" [[gnu::visibility("hidden")]] dlsym_type hipvmm_preload_dlsym(
    void* handle, const char* name) noexcept {
  // Idempotent, and before the second thread.
  if (real_dlsym == nullptr) find_real_dlsym();
  const bool is_of_driver = name != nullptr && std::strncmp(name, "cu", 2) == 0 &&
                            handle != RTLD_NEXT && handle != RTLD_DEFAULT;
  return is_of_driver ? &dlsym_of_driver : real_dlsym;
}

#if defined __x86_64__
asm(R"(
.pushsection .text
.globl dlsym
.type dlsym, @function
dlsym:
  endbr64
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  call hipvmm_preload_dlsym
  addq $8, %rsp
  popq %rsi
  popq %rdi
  jmpq *%rax
.size dlsym, .-dlsym
.popsection
)");
#elif defined __aarch64__
asm(R"(
.pushsection .text
.globl dlsym
.type dlsym, %function
dlsym:
  hint #34
  stp x29, x30, [sp, #-32]!
  stp x0, x1, [sp, #16]
  bl hipvmm_preload_dlsym
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  br x16
.size dlsym, .-dlsym
.popsection
)");
#else
#error "dlsym is not replaced on this machine: write the jump"
#endif

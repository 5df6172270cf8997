// SPDX-License-Identifier: MIT
// dlsym, for programs on CUDA. Its result for RTLD_NEXT depends on the caller: it jumps to the
// real function, with the caller's return address, for all names but those of the driver.
#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

#include "preload/core_loader.hpp"
#include "preload/cuda_names.hpp"

namespace {

using dlsym_type = void* (*)(void* handle, const char* name);

dlsym_type real_dlsym = nullptr;

void find_real_dlsym() noexcept {
  // The version that it has in the C library, by machine and age.
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    real_dlsym = reinterpret_cast<dlsym_type>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (real_dlsym != nullptr) return;
  }
  hipvmm::preload::say("the program cannot run", "the C library has no dlsym");
  __builtin_trap();
}

void* dlsym_of_driver(void* handle, const char* name) noexcept {
  void* const found = real_dlsym(handle, name);
  return found == nullptr ? nullptr : hipvmm::preload::replace_driver_function(name, found);
}

}  // namespace

/// The function that dlsym continues with.
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

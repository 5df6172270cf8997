// SPDX-License-Identifier: MIT
// A library that a program loads late and hides from others, as Python does. Another build of it
// calls from its constructor.
#include <hip/hip_runtime_api.h>

#include <cstddef>

extern "C" int hipvmm_test_plugin() {
  void* memory = nullptr;
  if (hipMalloc(&memory, std::size_t{3} << 20) != hipSuccess) return 1;
  if (hipMemset(memory, 1, std::size_t{3} << 20) != hipSuccess) return 2;
  return hipFree(memory) == hipSuccess ? 0 : 3;
}

#ifdef HIPVMM_TEST_MEETS
/// Of the program.
extern "C" void hipvmm_test_meet();

[[gnu::constructor]] static void meet_and_call() {
  hipvmm_test_meet();
  static_cast<void>(hipvmm_test_plugin());
}
#endif

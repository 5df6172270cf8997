# SPDX-License-Identifier: MIT
# Sets HIPVMM_HAS_LIBBACKTRACE.
# GCC brings libbacktrace along. Without it call stacks name exported functions and modules only.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES backtrace)
check_cxx_source_compiles("#include <backtrace.h>
  int main() { return backtrace_create_state(nullptr, 0, nullptr, nullptr) == nullptr; }"
  HIPVMM_HAS_LIBBACKTRACE)
unset(CMAKE_REQUIRED_LIBRARIES)

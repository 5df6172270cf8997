// SPDX-License-Identifier: MIT
// Stands for both preloaded libraries, and leaves the errno of an interrupted call.
#include <cerrno>

#include <hipvmm/version.hpp>

extern "C" const char* hipvmm_preload_version() { return HIPVMM_VERSION_STRING; }
extern "C" const char* hipvmm_preload_problem() { return nullptr; }

[[gnu::constructor]] static void leave_errno() { errno = EINTR; }

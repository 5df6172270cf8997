// SPDX-License-Identifier: MIT
#pragma once

#include "preload/calls.hpp"

namespace hipvmm::preload {

// Neither these functions nor the core's entry hold a lock while libraries are loaded or looked up:
// the loader holds a lock of its own while it runs constructors of other libraries, and these may
// call us. Threads that come at once find the same.

/// Loads the core from the folder of this library. Null if HIPVMM_PRELOAD=off, or if that fails:
/// one line on standard error gives the reason, once.
[[nodiscard]] const core_calls* load_core() noexcept;
/// Returns whether this thread is loading the core, whose dependencies may call replaced functions.
/// load_core() is null then.
[[nodiscard]] bool is_loading_core() noexcept;

void say(const char* what, const char* why) noexcept;

/// The function `name` that a call from `caller` would have reached without this library; null if
/// there is none. It searches the next libraries in their order, then the dependencies of the
/// caller's library, because Python loads libraries so that others do not see their symbols.
[[nodiscard]] void* find_real(const char* name, const void* caller) noexcept;

/// Keeps the library that contains an address for the life of the process: otherwise a program may
/// close it, and the address is used again.
void keep_library_of(const void* address) noexcept;

}  // namespace hipvmm::preload

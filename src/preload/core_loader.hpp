// SPDX-License-Identifier: MIT
#pragma once

#include "preload/calls.hpp"

namespace hipvmm::preload {

// Neither these functions nor the core's entry hold a lock while libraries are loaded or looked up:
// the loader holds a lock of its own while it runs constructors of other libraries, and these may
// call us. Threads that come at once find the same.

/// Null if HIPVMM_PRELOAD=off, or after a failure, with one line on standard error, once.
[[nodiscard]] const core_calls* load_core() noexcept;
/// The core's dependencies may call replaced functions meanwhile; load_core() is null then.
[[nodiscard]] bool is_loading_core() noexcept;

void say(const char* what, const char* why) noexcept;

/// The function `name` that a call from `caller` would have reached without this library; null if
/// there is none. It searches the next libraries in their order, then the dependencies of the
/// caller's library, because Python loads libraries so that others do not see their symbols.
[[nodiscard]] void* find_real(const char* name, const void* caller) noexcept;

/// Keeps the library for the life of the process: a closed one would leave its addresses to others.
void keep_library_of(const void* address) noexcept;

}  // namespace hipvmm::preload

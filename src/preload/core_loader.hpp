// SPDX-License-Identifier: MIT
#pragma once

#include "preload/calls.hpp"

namespace hipvmm::preload {

// Nothing here holds a lock while libraries are loaded or looked up, nor does the core's entry: the
// loader has one of its own, with which constructors of other libraries run, and they may call us.
// Threads that come at once find the same.

/// Loads libhipvmm_preload_core.so from beside this library. Null where HIPVMM_PRELOAD=off, or
/// where it cannot be: then one line on standard error says why, once.
[[nodiscard]] const core_calls* load_core() noexcept;
/// Whether this thread is loading it just now: a library that comes with it calls us. For it
/// load_core() is null.
[[nodiscard]] bool is_loading_core() noexcept;

/// One line on standard error.
void say(const char* what, const char* why) noexcept;

/// The function `name` that a call from `caller` would have reached without this library; null
/// where there is none.
/// - What comes next in the order of libraries, else what the caller's own library is linked with:
///   Python loads libraries so that others do not see their symbols.
[[nodiscard]] void* find_real(const char* name, const void* caller) noexcept;

/// Keeps the library that an address is in for as long as the process: a program may close the last
/// library that needs it, and the address is used again.
void keep_library_of(const void* address) noexcept;

}  // namespace hipvmm::preload

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

namespace hipvmm::detail {

/// Returns the bytes that the process can use without swapping or being killed: of the machine and
/// of its cgroups (both versions). Zero if unknown. Tests set `root`. Throws: std::bad_alloc.
[[nodiscard]] std::size_t free_host_memory(const std::string& root = {});

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>

namespace hipvmm::detail {

/// Returns the bytes that the process can use without swapping, or being killed for its memory: of
/// the machine, and of its cgroups (both versions). Zero if the system does not report them.
/// `root` is before the names of the system's files. Throws: std::bad_alloc.
[[nodiscard]] std::size_t free_host_memory(const std::string& root = {});

}  // namespace hipvmm::detail

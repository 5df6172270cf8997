// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "memory/address.hpp"

namespace hipvmm::host_provider {

struct protection {
  bool readable;
  bool writable;
};

/// The right of the process to a range; none if there is a hole in it. The operating system
/// answers, because a touch of a page could end the program.
protection protection_of(address start, std::size_t bytes);

/// False if the bytes cannot be read. Needs no descriptor unless the operating system keeps
/// processes from reading each other.
bool read_memory(address from, void* to, std::size_t bytes);

}  // namespace hipvmm::host_provider

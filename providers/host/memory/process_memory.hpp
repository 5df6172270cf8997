// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "memory/address.hpp"

namespace hipvmm::host_provider {

struct protection {
  bool readable;
  bool writable;
};

/// What the process itself may do with all of a range; nothing where there is a hole in it. Asked
/// of the operating system, because touching a page to find out could end the program.
protection protection_of(address start, std::size_t bytes);

/// Copies `bytes` from memory of the process. False where they cannot be read; needs no descriptor
/// unless the operating system keeps processes from reading each other.
bool read_memory(address from, void* to, std::size_t bytes);

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

struct ihipStream_t;

namespace hipvmm::test {

/// All return the runtime's code: 0 is success.

/// Adds 1 to each of `count` elements again and again, until the word at `stop`, in pinned memory,
/// is not 0 or some seconds have passed; `rounds[0]` tells how often.
int launch_count_until(unsigned* elements, std::size_t count, const volatile unsigned* stop,
                       unsigned* rounds, ihipStream_t* stream);

int launch_write(unsigned* element, unsigned value, ihipStream_t* stream);

int launch_read(const unsigned* element, unsigned* result, ihipStream_t* stream);

/// Writes i to each element i of [first, end).
int launch_number(unsigned* elements, std::size_t first, std::size_t end, ihipStream_t* stream);

/// Copies `bytes` bytes, a multiple of 16, as fast as a plain kernel can.
int launch_copy(void* destination, const void* source, std::size_t bytes, ihipStream_t* stream);

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/container/device_appender_ref.hpp>

struct ihipStream_t;

namespace hipvmm::test {

using appender = device_appender_ref<unsigned>;

/// Most rounds of append_in_loops, and most elements of a block, plus one.
inline constexpr unsigned loop_rounds = 8;
inline constexpr unsigned most_in_block = 7;

/// Whether `index` is one of those that kernels append: one in `divisor`, in no regular distance.
HIPVMM_HOST_DEVICE inline bool is_hit(unsigned index, unsigned divisor) {
  return (index * 2654435761U >> 8) % divisor == 0;
}

/// All return the runtime's code: 0 is success. Each starts `count` threads; thread i

/// appends first + i.
int launch_append_all(appender ref, unsigned first, unsigned count, ihipStream_t* stream);
/// appends i if it is a hit.
int launch_append_hits(appender ref, unsigned count, unsigned divisor, ihipStream_t* stream);
/// appends i in each of i % loop_rounds rounds for which i + round is a hit among 3.
int launch_append_in_loops(appender ref, unsigned count, ihipStream_t* stream);
/// appends i if it is a hit and done[i] is 0, which then tells whether it fitted.
int launch_append_not_done(appender ref, unsigned count, unsigned divisor, unsigned char* done,
                           ihipStream_t* stream);
/// appends a block of i % most_in_block elements, all i.
int launch_append_blocks(appender ref, unsigned count, ihipStream_t* stream);
/// appends i to one of two vectors, in the same instruction.
int launch_append_to_either(appender even, appender odd, unsigned count, ihipStream_t* stream);

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace stand_in {

/// Returns nanoseconds of the clock that signals' time stamps use, 1 GHz.
std::uint64_t now();

void sleep_microseconds(std::uint64_t microseconds);

/// Returns the kernel's number of the calling thread.
int thread_id();

}  // namespace stand_in

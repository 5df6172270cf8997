// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace stand_in {

/// Nanoseconds of the clock of signals' time stamps, 1 GHz.
std::uint64_t now();

void sleep_microseconds(std::uint64_t microseconds);

int thread_id();

}  // namespace stand_in

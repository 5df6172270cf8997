// SPDX-License-Identifier: MIT
// Ranges of addresses that ended, and their former contents.
#pragma once

#include <cstdint>
#include <string>

namespace stand_in {

/// The calling thread has just ended `what` at [address, address + bytes). `how` is the verb, such
/// as "unmapped". The last 4096 are kept.
void remember_end(const char* what, const char* how, std::uint64_t address, std::uint64_t bytes);

/// The newest ends of ranges that held `address`, at most `most`, joined by "; "; "" if there is
/// none.
std::string describe_history(std::uint64_t address, int most);

}  // namespace stand_in

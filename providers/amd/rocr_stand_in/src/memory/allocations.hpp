// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "src/memory/agents.hpp"

namespace stand_in {

/// 0 if the pool has no more.
std::uint64_t allocate(pool& from, std::uint64_t bytes);

/// Frees memory of allocate(). Reports if unfinished work still names it.
hsa_status_t deallocate(std::uint64_t address);

}  // namespace stand_in

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/region.hpp>

namespace hipvmm::test {

/// How far a chunk can be made ahead.
inline constexpr prefetch_level both_ways[] = {prefetch_level::created, prefetch_level::mapped};

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "region/chunks/pinned_memory.hpp"

#include "region/mapped_region.hpp"

namespace hipvmm::detail {

void use_pinned_chunks(region& of) { of.live().takes_pinned = true; }

void return_pinned_memory(region& of) noexcept { of.live().return_pinned_memory(); }

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm::detail {

/// Returns whether `pointer` is a multiple of `alignment`, a power of two.
[[nodiscard]] bool is_aligned(const void* pointer, std::size_t alignment) noexcept;

/// Throws std::invalid_argument: memory that `giver` returned to `resource` is not aligned to
/// `alignment`.
[[noreturn]] void throw_misaligned(const char* resource, const char* giver, std::size_t alignment);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::detail {

/// Takes one more reference to the chunk that is mapped at `address`, of which `bytes` bytes are
/// mapped. Has all that the chunk was made with.
/// Pre: hipMemGetAccess knows the address; elsewhere ROCm up to 7.2 crashes. Where
/// trait::retains_chunks is not there, HIP counts no reference, and what is returned must be let go
/// by release().
/// Throws: hip_error.
[[nodiscard]] physical_chunk retain_at(const void* address, device_ref device, std::size_t bytes);

/// Makes another owner of the chunk in this process, without a call of HIP: the memory is released
/// with the last of them. Until then none of them is kept in a chunk cache. For a second mapping,
/// where HIP shows the same bytes at both (quirk::no_aliases is not in force).
/// Pre: `chunk` is not empty. Nobody takes the handle by release() of either.
/// Throws: std::bad_alloc.
[[nodiscard]] physical_chunk reference_to(const physical_chunk& chunk);

/// How many owners in this process the chunk has, beside retained ones.
[[nodiscard]] std::size_t owners_of(const physical_chunk& chunk) noexcept;

/// Whether what retain_at() returned for the memory of `chunk` is still there.
[[nodiscard]] bool is_retained_by_address(const physical_chunk& chunk) noexcept;

/// Whether what retain_at() or reference_to() returned for the memory of `chunk` is still there:
/// its owner is in this process, and nobody else may get the memory, though the chunk does not know
/// that it is shared.
[[nodiscard]] bool is_retained(const physical_chunk& chunk) noexcept;

}  // namespace hipvmm::detail

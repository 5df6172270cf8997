// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::detail {

/// Takes one more reference to the chunk that is mapped at `address`, of which `bytes` bytes are
/// mapped. Has all that the chunk was made with.
/// Pre: hipMemGetAccess knows the address; elsewhere ROCm up to 7.2 crashes. If
/// memory_strategy::retained_chunks is not given, HIP counts no reference: give the result away by
/// release().
/// Throws: hip_error.
[[nodiscard]] physical_chunk retain_at(const void* address, device_ref device, std::size_t bytes);

/// Makes another owner of the chunk in this process, without a call of HIP: the memory is released
/// with the last of them. Until then none of them is kept in a chunk cache. For a second mapping,
/// if memory_strategy::second_address allows one.
/// Pre: `chunk` is not empty. Nobody takes the handle by release() of either.
/// Throws: std::bad_alloc.
[[nodiscard]] physical_chunk reference_to(const physical_chunk& chunk);

/// The chunk is no longer shared: nobody has the handle that its export made.
void withdraw_export(physical_chunk& chunk) noexcept;

/// How many owners in this process the chunk has, beside retained ones.
[[nodiscard]] std::size_t owners_of(const physical_chunk& chunk) noexcept;

/// Whether a chunk that retain_at() returned for the memory of `chunk` is still there.
[[nodiscard]] bool is_retained_by_address(const physical_chunk& chunk) noexcept;

/// Returns whether addresses keep the memory of `chunk`: a release would return it to the device
/// only once these are freed, see chunk_pins.
[[nodiscard]] bool is_pinned(const physical_chunk& chunk) noexcept;

/// Sets the function that ~physical_chunk() calls for a pinned chunk, which takes it over or
/// returns false. Pre: called before any chunk is pinned.
void set_pinned_chunk_keeper(bool (*keep)(physical_chunk&)) noexcept;

/// Whether a chunk of retain_at() or reference_to() for the memory of `chunk` is still there:
/// its owner is in this process, and nobody else may get the memory, though the chunk does not know
/// that it is shared.
[[nodiscard]] bool is_retained(const physical_chunk& chunk) noexcept;

}  // namespace hipvmm::detail

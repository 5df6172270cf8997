// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::detail {

/// Takes one more reference to the chunk mapped at `address`, with all its properties. Pre:
/// hipMemGetAccess knows the address; elsewhere ROCm up to 7.2 crashes. Without
/// memory_strategy::retained_chunks HIP counts no reference: give the result away by release().
/// Throws: hip_error.
[[nodiscard]] physical_chunk retain_at(const void* address, device_ref device, std::size_t bytes);

/// Makes another owner of the chunk in this process, without a call of HIP, for a second mapping
/// (memory_strategy::second_address). The last owner releases the memory; until then no chunk cache
/// keeps it. Pre: `chunk` is not empty, and nobody calls release() of either. Throws:
/// std::bad_alloc.
[[nodiscard]] physical_chunk reference_to(const physical_chunk& chunk);

/// Nobody has the handle that the export made.
void withdraw_export(physical_chunk& chunk) noexcept;

/// In this process, without retained ones.
[[nodiscard]] std::size_t owners_of(const physical_chunk& chunk) noexcept;

/// Whether a chunk that retain_at() returned for the memory of `chunk` is still there.
[[nodiscard]] bool is_retained_by_address(const physical_chunk& chunk) noexcept;

/// Whether addresses pin the memory: a release returns it only once they are freed (chunk_pins).
[[nodiscard]] bool is_pinned(const physical_chunk& chunk) noexcept;

/// `keep` takes over a pinned chunk at its end, or returns false. Pre: none is pinned yet.
void set_pinned_chunk_keeper(bool (*keep)(physical_chunk&)) noexcept;

/// Whether a chunk of retain_at() or reference_to() has the memory too: then no other request may
/// get it, even if shared() is false.
[[nodiscard]] bool is_retained(const physical_chunk& chunk) noexcept;

}  // namespace hipvmm::detail

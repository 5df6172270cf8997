// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/region.hpp>

// On some devices addresses pin the memory of chunks that were mapped in them.
namespace hipvmm::detail {

/// Lets commit() back a gap with pinned chunks of other sizes, before it creates one: several
/// smaller ones, or one that backs up to an eighth more than it was asked for, or more if the
/// device is full. For a region that is backed from one offset on without holes.
void use_pinned_chunks(region& of);

/// If nothing is backed: frees the addresses and reserves the same again, so that memory returns
/// that only they pinned. Waits for memory that was retired from them, and on ROCm 6 for the
/// devices with access. A failure is reported.
/// - If others took the addresses in between, the next commit() reserves them, or throws
///   out_of_memory with exhausted::addresses.
void return_pinned_memory(region& of) noexcept;

}  // namespace hipvmm::detail

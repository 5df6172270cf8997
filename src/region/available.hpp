// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>

// The remaining addresses of the process, and memory for new chunks.
namespace hipvmm::detail {

/// Bytes of addresses to reserve if the program names no size. `needed`: the least that the caller
/// can use; `wanted`: the size that makes it faster. A trial, which is freed at once, shows how
/// many addresses remain, unless an earlier one has shown enough. Waits for retired memory if
/// `needed` is not available. Throws: hip_error; out_of_memory if captures forbid that wait. Leaves
/// addresses for others, however many come:
/// - one part in eight of the remaining addresses is for the program itself;
/// - with n reservations of the library, the result is at most 1/(n + 3) of the rest, and more than
///   `needed` only up to 1/(n + 64) of it. No sum of such shares reaches the rest.
[[nodiscard]] std::size_t address_share(device_ref device, std::size_t needed, std::size_t wanted);

struct creatable_memory {
  std::size_t bytes;
  std::size_t chunks;  ///< at most so many; the type's maximum if chunks cost no descriptors
};

/// New chunks that `device` can give. Bytes: its free memory, the shared cache's and retired
/// memory, within its memory_budget. Chunks: as many as the free descriptors allow; these are
/// counted only up to the number that chunks of `least_chunk` bytes need. Another thread or process
/// may take the memory first. Throws: hip_error.
[[nodiscard]] creatable_memory creatable(device_ref device, std::size_t least_chunk);

}  // namespace hipvmm::detail

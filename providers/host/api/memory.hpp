// SPDX-License-Identifier: MIT
#pragma once

#include "machine/runtime.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {

/// As hipMalloc: memory of the current device, null for no bytes.
void* allocate_now(runtime& machine, std::size_t bytes);

/// As hipFree: waits for the work that may use the memory at `start`, then frees it.
/// Throws: failure with hipErrorInvalidValue unless an allocation that is not freed starts there.
void free_now(runtime& machine, address start);

/// The stream of an allocation, a free or a prefetch. Throws: failure with `code` if there is none,
/// or crash as the profile says.
std::shared_ptr<stream_queue> stream_of_memory(runtime& machine, hipStream_t stream,
                                               hipError_t code);

/// The size of a hipIpcMemHandle_t, by which other processes find an allocation.
inline constexpr std::size_t named_allocation_bytes = 64;

/// Writes the place of an allocation of hipMalloc, by which any process finds it.
void name_allocation(const runtime& machine, const tracked_range& allocation, void* name);
bool names_allocation(const void* name) noexcept;
/// Maps the allocation as an imported one. Throws: failure, also for a name of this process if
/// `own` is refused.
enum class own_name { refused, taken };
void* map_named(runtime& machine, const void* name, own_name own);

}  // namespace hipvmm::host_provider

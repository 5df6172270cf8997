// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/stream.hpp>

// What resources of the host's memory have in common.
namespace hipvmm::detail {

/// Throws out_of_memory for sizes that no object can have, which allocators do not all survive.
void require_possible(std::size_t bytes, const char* call);

/// wait_for_work(), which may use memory of the host, before that is freed: nobody else keeps that
/// of operator new until then, and hipFree and hipHostFree may wait for one device only (AMD: the
/// one that was current at the allocation). Throws, with the memory's fate, which is to stay
/// allocated: std::logic_error in a stream that is being captured, whose graph may use the memory;
/// std::runtime_error where the devices cannot be waited for either.
void wait_before_free(stream_ref stream, const void* pointer);

/// Waits for all devices before hipFree or hipHostFree of memory that all may use and that is
/// deallocated without a stream. With one device HIP's own wait is enough.
/// Throws: as wait_for_users().
void wait_before_hip_free(const void* pointer);
/// Waits for the devices that reach ordinary memory of the host, before such memory is freed that
/// is deallocated without a stream. Throws: as wait_for_users(); hip_error.
void wait_before_delete(const void* pointer);

/// Frees memory of operator new at once.
void delete_aligned(void* pointer, std::size_t alignment) noexcept;

}  // namespace hipvmm::detail

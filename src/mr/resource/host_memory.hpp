// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/stream.hpp>
#include "core/check.hpp"

// Functions shared by the resources of host memory.
namespace hipvmm::detail {

/// Checks that an object of `bytes` bytes is possible, because some allocators do not survive
/// larger sizes. Throws: out_of_memory.
void require_possible(std::size_t bytes, const char* call);

/// Waits as wait_for_work() for work that may use host memory, before that memory is freed. The
/// wait is needed because nothing else keeps memory of operator new until then, and because hipFree
/// and hipHostFree may wait for one device only (AMD: the one that was current at the allocation).
/// Throws, with a text that says that the memory stays allocated, which the caller must ensure:
/// - std::logic_error in a stream that is being captured, whose graph may use the memory;
/// - std::runtime_error if the devices cannot be waited for either.
void wait_before_free(stream_ref stream, const void* pointer, std::size_t bytes);

/// Waits for all devices before hipFree or hipHostFree of memory that all may use and that is
/// deallocated without a stream. With one device HIP's own wait is sufficient.
/// Throws: as wait_for_users().
void wait_before_hip_free(const void* pointer);
/// Waits for the devices that can access ordinary host memory, before such memory is freed that was
/// deallocated without a stream. Throws: as wait_for_users(); hip_error.
void wait_before_delete(const void* pointer);

/// Calls `free` behind wait_before_free(). Reports a failure; then the memory stays allocated.
template <typename Free>
void free_behind(stream_ref stream, const void* pointer, std::size_t bytes, Free free) noexcept {
  report_exceptions([&] {
    wait_before_free(stream, pointer, bytes);
    free();
  });
}
/// The same behind `wait`, one of the two functions for memory deallocated without a stream.
template <typename Free>
void free_behind(void (*wait)(const void*), const void* pointer, Free free) noexcept {
  report_exceptions([&] {
    wait(pointer);
    free();
  });
}

/// Frees memory of operator new at once.
void delete_aligned(void* pointer, std::size_t alignment) noexcept;

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/stream.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

/// Throws: out_of_memory for a size of no object, which some allocators do not survive.
void require_possible(std::size_t bytes, const char* call);

/// Waits as wait_for_work() for work that may use host memory, before that memory is freed. Nothing
/// else keeps memory of operator new until then, and hipFree and hipHostFree may wait for one
/// device only (AMD: the one that was current at the allocation).
/// Throws, saying that the memory stays allocated, which the caller must ensure: std::logic_error
/// in a captured stream, because its graph may use it; std::runtime_error if the waits fail.
void wait_before_free(stream_ref stream, const void* pointer, std::size_t bytes);

/// Waits for all devices before hipFree or hipHostFree of memory deallocated without a stream. With
/// one device HIP's own wait is sufficient. Throws: as wait_for_users().
void wait_before_hip_free(const void* pointer);
/// Waits for the devices that reach ordinary host memory, before memory deallocated without a
/// stream is freed. Throws: as wait_for_users(); hip_error.
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

void delete_aligned(void* pointer, std::size_t alignment) noexcept;

}  // namespace hipvmm::detail

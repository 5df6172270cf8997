// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>

// How resources wait for streams.
namespace hipvmm::detail {

/// Waits for `stream`. Where that fails, as for a stream that is gone, the error handler is told,
/// and all devices are waited for. Returns false, without a wait, when `stream` is being captured.
/// Throws: hip_error where the devices cannot be waited for either.
[[nodiscard]] bool wait_for_work(stream_ref stream);

/// allocate_sync() of a resource that allocates in streams only: in `own`, a stream that it keeps
/// for this, and waited for. Throws: what allocate() and the wait do; then nothing stays allocated.
[[nodiscard]] void* allocate_and_wait(mr::memory_resource& resource, stream_ref own,
                                      std::size_t bytes, std::size_t alignment);

}  // namespace hipvmm::detail

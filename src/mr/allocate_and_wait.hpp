// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>

namespace hipvmm::detail {

/// allocate_sync() of a resource that allocates in streams only: in `own`, a stream that it keeps
/// for this, and waited for. Throws: what allocate() and the wait do; then nothing stays allocated.
[[nodiscard]] void* allocate_and_wait(mr::memory_resource& resource, stream_ref own,
                                      std::size_t bytes, std::size_t alignment);

}  // namespace hipvmm::detail

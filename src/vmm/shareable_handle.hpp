// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {

/// The argument of hipMemImportFromShareableHandle, which differs between releases: the
/// descriptor's value or a pointer to it.
enum class import_form { value, pointer };

/// Like import_chunk(), with one form of the argument. A runtime that takes values as pointers
/// crashes on `value`.
[[nodiscard]] physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                                             device_ref device);

/// Makes a dma-buf of the memory mapped at [address, address + bytes), whole pages of the host: one
/// chunk, or several of the same device that were made alike. If a chunk's own descriptor is a
/// dma-buf, as on AMD, that is better: HIP does not report the offset of the range in its dma-buf.
/// Throws: unsupported if the runtime has no such function, or says that the memory or the
/// device has none; out_of_memory without descriptors; hip_error.
[[nodiscard]] shareable_handle dma_buf_of_range(const void* address, std::size_t bytes,
                                                device_ref device);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {

/// The argument of hipMemImportFromShareableHandle, by release: the descriptor or a pointer to it.
enum class import_form { value, pointer };

/// As import_chunk(). A runtime that takes the argument for a pointer crashes on `value`.
[[nodiscard]] physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                                             device_ref device);

/// Makes a dma-buf of the memory mapped at [address, address + bytes), whole pages of the host: one
/// chunk, or several of the same device that were made alike. A chunk's own descriptor is better if
/// it is a dma-buf, as on AMD, because HIP does not report the offset of the range in this one.
/// Throws: unsupported if the runtime has no such function, or none for this memory or device;
/// out_of_memory without descriptors; hip_error.
[[nodiscard]] shareable_handle dma_buf_of_range(const void* address, std::size_t bytes,
                                                device_ref device);

}  // namespace hipvmm::detail

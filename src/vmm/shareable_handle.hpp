// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {

/// The argument of hipMemImportFromShareableHandle, by release: the descriptor or a pointer to it.
enum class import_form { value, pointer };

/// As import_chunk(). A runtime that takes a pointer crashes on `value`.
[[nodiscard]] physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                                             device_ref device);

/// Makes a dma-buf of mapped memory, whole pages of the host, of one chunk or several alike of one
/// device. HIP does not report the range's offset in it: prefer a chunk's own descriptor if it is a
/// dma-buf, as on AMD. Throws: unsupported for this runtime, memory or device; out_of_memory
/// without descriptors; hip_error.
[[nodiscard]] shareable_handle dma_buf_of_range(const void* address, std::size_t bytes,
                                                device_ref device);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

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

}  // namespace hipvmm::detail

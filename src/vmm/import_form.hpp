// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/core/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

namespace hipvmm::detail {

/// What hipMemImportFromShareableHandle is given: it differs from release to release.
enum class import_form { value, pointer };

/// As import_chunk, in one form. A runtime that takes values as pointers crashes on `value`.
[[nodiscard]] physical_chunk import_chunk_as(import_form form, const shareable_handle& handle,
                                             device_ref device);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <optional>
#include <string_view>

namespace hipvmm::host_provider {

/// nullopt for success and for unknown names.
std::optional<hipError_t> error_named(std::string_view name);

/// HIP's name and text; unknown numbers get HIP's for any such number.
const char* name_of_error(int code) noexcept;
const char* text_of_error(int code) noexcept;

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <optional>
#include <string_view>

namespace hipvmm::host_provider {

/// The error that HIP calls so; success is none.
std::optional<hipError_t> error_named(std::string_view name);

/// HIP's name and text of an error; of an unknown number, those that HIP has for any such.
const char* name_of_error(int code) noexcept;
const char* text_of_error(int code) noexcept;

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <optional>
#include <string_view>

namespace hipvmm::host_provider {

/// The error that HIP calls so; success is none.
std::optional<hipError_t> error_named(std::string_view name);

/// What HIP calls an error, and says of it; of a number that is none, what it says of any other.
const char* name_of_error(int code) noexcept;
const char* text_of_error(int code) noexcept;

}  // namespace hipvmm::host_provider

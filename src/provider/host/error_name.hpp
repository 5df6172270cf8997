// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <optional>
#include <string_view>

namespace hipvmm::host_provider {

/// The error that HIP calls so; success is none.
std::optional<hipError_t> error_named(std::string_view name);

}  // namespace hipvmm::host_provider

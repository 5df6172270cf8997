// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::preload {

/// The driver's function `symbol` of its library, for a program that has looked it up as `real`:
/// ours, or `real` itself.
[[nodiscard]] void* replace_driver_function(const char* symbol, void* real) noexcept;

}  // namespace hipvmm::preload

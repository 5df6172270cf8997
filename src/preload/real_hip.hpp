// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::preload {

/// The provider's hipFree, which this library's own calls reach.
[[nodiscard]] void* own_free() noexcept;

}  // namespace hipvmm::preload

// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::preload {

[[nodiscard]] void* own_free() noexcept;

}  // namespace hipvmm::preload

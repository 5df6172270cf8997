// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include <hipvmm/ipc/export_kind.hpp>

namespace hipvmm::detail {

[[nodiscard]] export_kind kind_of_link(std::string_view link) noexcept;
/// As export_kind_of(), without its cache.
[[nodiscard]] export_kind probe_export(device_ref device);

}  // namespace hipvmm::detail

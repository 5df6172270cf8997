// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include <hipvmm/ipc/export_kind.hpp>

namespace hipvmm::detail {

/// What a descriptor is, by what its entry in /proc/self/fd links to.
[[nodiscard]] export_kind kind_of_link(std::string_view link) noexcept;
/// As export_kind_of(), each time anew.
[[nodiscard]] export_kind probe_export(device_ref device);

}  // namespace hipvmm::detail

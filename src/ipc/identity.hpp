// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ipc/packet.hpp"

namespace hipvmm::detail {

/// The provider of this build: "amd", "cuda" or "host". Throws: hip_error.
[[nodiscard]] const char* provider_of_build();

[[nodiscard]] build_identity own_identity();

/// The reason for which an importer refuses a publication, or is refused; empty if none.
[[nodiscard]] std::string why_refused(const build_identity& own, const build_identity& peer);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "ipc/packet.hpp"

namespace hipvmm::detail {

/// The provider of this build: "amd", "cuda" or "host". Throws: hip_error.
[[nodiscard]] const char* provider_of_build();

[[nodiscard]] build_identity own_identity();

/// Why a peer of that identity is refused, in a sentence; empty if it is accepted.
[[nodiscard]] std::string why_refused(const build_identity& own, const build_identity& peer);

}  // namespace hipvmm::detail

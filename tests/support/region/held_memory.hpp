// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/provider/host_control.h>

#include <cstddef>

#include "support/region/region_contents.hpp"

namespace hipvmm::test {

/// The findings of a device whose memory comes back only with the addresses.
inline constexpr const char* kept_memory = "returns_memory=no,returns_with_addresses=yes";

/// The addresses hold the memory: unmapped chunks count until they are freed.
struct held_memory {
  const std::size_t before = hipvmm_host_device_bytes(0);
  [[nodiscard]] std::size_t granules() const {
    return (hipvmm_host_device_bytes(0) - before) / granule();
  }
};

}  // namespace hipvmm::test

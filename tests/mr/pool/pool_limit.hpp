// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "support/devices.hpp"

namespace hipvmm::test {

/// The options of a pool that holds no more than so many bytes.
inline mr::pool_options at_most(std::size_t bytes) {
  return mr::pool_options{.maximum_bytes = bytes};
}

/// Whether chunks go back to the device one by one: else all of a pool must be idle.
inline bool returns_chunks() { return !capability_of(first_device).needs(quirk::re_reserve); }

}  // namespace hipvmm::test

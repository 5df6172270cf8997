// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "support/devices.hpp"
#include "support/test_bytes.hpp"

namespace hipvmm::test {

/// The options of a pool that holds no more than so many bytes.
inline mr::pool_options at_most(std::size_t bytes) {
  return mr::pool_options{.maximum_bytes = bytes};
}

/// Bytes of a large block that a test fills, so that work uses the block.
inline std::size_t filled_bytes(std::size_t usual) { return test_bytes(usual, 64 * KiB); }

/// Whether chunks go back to the device one by one: else all of a pool must be idle.
inline bool returns_chunks() { return !capability_of(first_device).needs(quirk::re_reserve); }

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/vmm_pool_resource.hpp>

namespace hipvmm::test {

/// The options of a pool that holds no more than so many bytes.
inline mr::pool_options at_most(std::size_t bytes) {
  mr::pool_options options;
  options.maximum_bytes = bytes;
  return options;
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>

#include <hipvmm/core/copy.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include "support/blocked_stream.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {

/// Checks that `deallocate` of `memory`, which work in a stream uses of which the resource knows
/// nothing, does not wait for that work, and that nobody gets the memory before it is done.
template <typename Deallocate>
void check_held_while_used(mr::memory_resource& resource, void* memory, std::size_t bytes,
                           Deallocate deallocate) {
  const stream other{first_device};
  blocked_stream used{first_device};
  fill_async(used, memory, 1, bytes);
  deallocate();
  CHECK_FALSE(used.is_done());
  void* const two = resource.allocate(other, bytes);
  CHECK(two != memory);
  CHECK_FALSE(used.is_done());
  used.release();
  resource.deallocate(other, two, bytes);
}

}  // namespace hipvmm::test

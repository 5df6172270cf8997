// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "support/blocked_stream.hpp"
#include "support/test.hpp"

namespace hipvmm::test {

/// Checks that `deallocate` of `memory`, which work in a stream uses of which the resource knows
/// nothing, does not wait for that work, and that nobody gets the memory before it is done.
template <typename Deallocate>
void check_held_while_used(mr::memory_resource& resource, void* memory, std::size_t bytes,
                           Deallocate deallocate) {
  const stream other{first_device};
  blocked_stream used{first_device};
  fill_async(used, memory, 1, bytes);
  // A wait for that stream would never end, here or below. HIP is not asked whether it is done,
  // which hangs on AMD's runtime 7.2.4 beside the function that blocks it.
  deallocate();
  void* const two = resource.allocate(other, bytes);
  CHECK(two != memory);
  used.release();
  resource.deallocate(other, two, bytes);
}

/// Whether `memory` is among the next blocks of its size in `stream`. Between them threads of the
/// library have time to find it free.
inline bool is_given_again(mr::memory_resource& resource, stream_ref stream, const void* memory,
                           std::size_t bytes) {
  std::vector<void*> blocks;
  bool found = false;
  for (int i = 0; i < 12 && !found; ++i) {
    for (int pause = 0; pause < 30; ++pause) std::thread{[] {}}.join();
    blocks.push_back(resource.allocate(stream, bytes));
    found = blocks.back() == memory;
  }
  for (void* const each : blocks) resource.deallocate(stream, each, bytes);
  return found;
}

}  // namespace hipvmm::test

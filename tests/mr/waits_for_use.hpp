// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <future>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include "support/blocked_stream.hpp"
#include "support/devices.hpp"

namespace hipvmm::test {

/// Whether `deallocate` returns only after work that uses the first MiB of `memory`, in a stream of
/// which the resource knows nothing.
template <typename Deallocate>
bool waits_for_use(void* memory, Deallocate deallocate) {
  blocked_stream used{first_device};
  fill_async(used, memory, 1, MiB);
  std::future<void> ended = std::async(std::launch::async, deallocate);
  const bool waits = ended.wait_for(std::chrono::milliseconds{100}) == std::future_status::timeout;
  used.release();
  ended.get();
  return waits;
}

}  // namespace hipvmm::test

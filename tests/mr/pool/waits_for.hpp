// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include <hipvmm/provider/host_control.h>
#include <hipvmm/runtime/device.hpp>
#include "support/blocked_stream.hpp"
#include "support/happens.hpp"
#include "support/host/host_provider.hpp"

namespace hipvmm::test {

inline constexpr device_ref lonely_device{2};  // reaches no other and is reached by none

/// No wait for a device succeeds.
inline constexpr const char* no_waits =
    "hipMalloc error=hipErrorUnknown; hipDeviceSynchronize error=hipErrorUnknown";

/// Whether `call` returns only when `busy` is released, which this does.
template <typename Call>
bool waits_for(blocked_stream& busy, Call call) {
  std::atomic<bool> has_returned{false};
  std::thread caller{[&] {
    call();
    has_returned = true;
  }};
  const bool waited = !happens([&] { return has_returned.load(); });
  busy.release();
  caller.join();
  return waited;
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/provider/host_control.h>
#include <hipvmm/runtime/device.hpp>
#include "support/blocked_stream.hpp"
#include "support/host/host_provider.hpp"
#include "support/test.hpp"

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

/// Memory of `resource` that no wait covers stays allocated, with one report, until it is
/// deallocated once more. `state` returns the numbers that a deallocation changes.
template <typename Resource, typename State>
void check_kept_without_wait(Resource& resource, std::size_t bytes, State state) {
  void* const one = resource.allocate_sync(bytes);
  const auto before = state();
  const error_recorder reported;
  {
    const planned_faults faults{no_waits};
    resource.deallocate_sync(one, bytes);
  }
  CHECK(state() == before);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors()[0].message.find("stays allocated") != std::string::npos);
  resource.deallocate_sync(one, bytes);
  CHECK_FALSE(state() == before);
  CHECK(reported.count() == 1);
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "runtime/host_function.hpp"

#include <hip/hip_runtime_api.h>

#include <future>
#include <memory>
#include <utility>

#include "core/capture_mode.hpp"
#include "core/check.hpp"

namespace hipvmm::detail {
namespace {

using held_function = std::function<void(bool)>;

void call(hipStream_t, hipError_t status, void* argument) {
  const std::unique_ptr<held_function> own{static_cast<held_function*>(argument)};
  (*own)(status == hipSuccess);
}

}  // namespace

void add_host_function(stream_ref stream, std::function<void(bool succeeded)> function) {
  auto argument = std::make_unique<held_function>(std::move(function));
  // HIP 5.2 declares hipLaunchHostFunc and does not have it.
  check(hipStreamAddCallback(stream.get(), call, argument.get(), 0), "hipStreamAddCallback");
  static_cast<void>(argument.release());
}

bool outlast_handlers(device_ref device, std::chrono::milliseconds limit) {
  const relaxed_captures relaxed;
  stream own{device};
  const auto end = std::chrono::steady_clock::now() + limit;
  for (int turn = 0; turn < 2; ++turn) {
    const auto ran = std::make_shared<std::promise<void>>();
    const std::future<void> has_run = ran->get_future();
    add_host_function(own, [ran](bool) { ran->set_value(); });
    if (has_run.wait_until(end) != std::future_status::ready) {
      // The stream's end would wait for the function.
      static_cast<void>(own.release());
      return false;
    }
  }
  return true;
}

}  // namespace hipvmm::detail

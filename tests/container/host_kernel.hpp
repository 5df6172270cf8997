// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <functional>
#include <memory>
#include <stdexcept>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::test {

/// Runs `kernel` in the order of `stream` as a kernel would: it touches the elements itself, which
/// the memory of the host provider allows under strict (quirks::host_may_not_touch).
inline void launch(stream_ref stream, std::function<void()> kernel) {
  auto owned = std::make_unique<std::function<void()>>(std::move(kernel));
  const auto run = [](void* data) {
    const std::unique_ptr<std::function<void()>> own{static_cast<std::function<void()>*>(data)};
    (*own)();
  };
  if (hipLaunchHostFunc(stream.get(), run, owned.get()) != hipSuccess)
    throw std::runtime_error{"the kernel could not be launched"};
  static_cast<void>(owned.release());
}

}  // namespace hipvmm::test

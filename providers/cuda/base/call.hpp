// SPDX-License-Identifier: MIT
#pragma once

#include <new>

#include "base/current.hpp"
#include "base/driver.hpp"
#include "base/failure.hpp"
#include "base/pushed_context.hpp"
#include "base/translate.hpp"

namespace hipvmm::cuda_provider {

/// Sets the calling thread's last error unless `code` is success or "not ready"; returns `code`.
hipError_t remember(hipError_t code) noexcept;

driver& ready_driver();
/// Throws "no device" if there is none, as libamdhip64 does from 5.7 on.
driver& driver_with_device();

/// Runs `body()` as a HIP function, and returns a failure as its code. The context that `body`
/// leaves current in the thread stays current.
template <class Body>
hipError_t call_bare(Body&& body) noexcept {
  try {
    return remember(body());
  } catch (const failure& error) {
    return remember(error.code());
  } catch (const std::bad_alloc&) {
    return remember(hipErrorOutOfMemory);
  } catch (...) {
    return remember(hipErrorUnknown);
  }
}

/// Runs `body(driver&)` with the primary context of HIP's current device as the current one, which
/// stays current in a thread that had none.
template <class Body>
hipError_t call(Body&& body) noexcept {
  return call_bare([&] {
    driver& machine = driver_with_device();
    const pushed_context scope{bound_primary()};
    return body(machine);
  });
}

/// The same for calls that do not depend on the device: a device that the process has not used gets
/// no context by it, such as device 0 in a process that uses another.
template <class Body>
hipError_t call_anywhere(Body&& body) noexcept {
  return call_bare([&] {
    driver& machine = driver_with_device();
    const pushed_context scope{any_bound_primary()};
    return body(machine);
  });
}

/// Runs `body(driver&)` with the context of `stream` current, because CUDA takes some work for a
/// stream only there, while HIP takes it anywhere.
template <class Body>
hipError_t call_on(hipStream_t stream, Body&& body) noexcept {
  return call_bare([&] {
    driver& machine = driver_with_device();
    const pushed_context scope{context_of(stream)};
    return body(machine);
  });
}

}  // namespace hipvmm::cuda_provider

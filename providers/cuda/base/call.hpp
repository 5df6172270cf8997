// SPDX-License-Identifier: MIT
#pragma once

#include <new>

#include "base/current.hpp"
#include "base/driver.hpp"
#include "base/failure.hpp"
#include "base/pushed_context.hpp"
#include "base/translate.hpp"

namespace hipvmm::cuda_provider {

/// Sets the calling thread's last error unless `code` is success or "not ready"; gives `code` back.
hipError_t remember(hipError_t code) noexcept;

/// Throws if the driver could not be initialized.
driver& ready_driver();
/// Throws "no device" if there is none, as libamdhip64 does from 5.7 on.
driver& driver_with_device();

/// Runs `body()` as a HIP function, with every failure turned into a code. The context that `body`
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

/// The same for calls that do not depend on the device: no device gets a context for it that the
/// process has not used, such as device 0 in a thread of a process that uses another.
template <class Body>
hipError_t call_anywhere(Body&& body) noexcept {
  return call_bare([&] {
    driver& machine = driver_with_device();
    const pushed_context scope{any_bound_primary()};
    return body(machine);
  });
}

/// Runs `body(driver&)` with the context of `stream` as the current one: CUDA takes some work for a
/// stream only there, HIP takes it anywhere.
template <class Body>
hipError_t call_on(hipStream_t stream, Body&& body) noexcept {
  return call_bare([&] {
    driver& machine = driver_with_device();
    const pushed_context scope{context_of(stream)};
    return body(machine);
  });
}

}  // namespace hipvmm::cuda_provider

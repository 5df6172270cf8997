// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "machine/runtime.hpp"

namespace hipvmm::host_provider {

/// The count of the calls of one HIP function. Lives as long as the process.
class call_site {
 public:
  explicit call_site(const char* function) noexcept;

  void count() noexcept { calls_.fetch_add(1, std::memory_order_relaxed); }

  /// Null: of every function.
  static std::uint64_t count(const char* function) noexcept;

 private:
  const char* function_;
  std::atomic<std::uint64_t> calls_{0};
  call_site* next_;
};

enum class device_need { required, none };

/// Sets the calling thread's last error to a failure; before 7.0 also to "not ready" and success.
/// Returns `code`.
hipError_t remember(hipError_t code) noexcept;

/// Runs `body(runtime&)` as the HIP function `function`: counts the call, asks the fault plan,
/// refuses it if the environment is not valid or there is no device, and returns a failure as its
/// code. Each body is a type of its own, so each function has its own call_site.
template <class Body>
hipError_t call(const char* function, device_need need, Body&& body) noexcept {
  static call_site site{function};
  site.count();
  try {
    runtime& machine = runtime::get();
    if (!machine.valid()) return remember(hipErrorNotInitialized);
    if (const auto planned = fault_plan::get().strike(function)) return remember(*planned);
    if (need == device_need::required && machine.device_count() == 0) {
      return remember(hipErrorNoDevice);
    }
    if (machine.checker() != nullptr) race_checker::enter(function);
    return remember(body(machine));
  } catch (const failure& error) {
    return remember(error.code());
  } catch (const crash& what) {
    end_process(function, runtime::get().rules(), what);
  } catch (const std::bad_alloc&) {
    return remember(hipErrorOutOfMemory);
  } catch (...) {
    return remember(hipErrorUnknown);
  }
}

template <class Body>
hipError_t call(const char* function, Body&& body) noexcept {
  return call(function, device_need::required, static_cast<Body&&>(body));
}

/// Runs `body()` as a HIP function that succeeds under any environment and fault plan.
template <class Body>
auto call_infallible(const char* function, Body&& body) noexcept {
  static call_site site{function};
  site.count();
  return body();
}

}  // namespace hipvmm::host_provider

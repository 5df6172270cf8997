// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <source_location>
#include <string>
#include <vector>

#include <hipvmm/core/device.hpp>

namespace hipvmm::detail {

/// Throws hip_error unless `result` is hipSuccess. `call` is the HIP function's name.
void check(hipError_t result, const char* call,
           std::source_location where = std::source_location::current());

/// Tells the error handler of a failure that cannot be thrown; does nothing for hipSuccess.
void report(hipError_t result, const char* call) noexcept;

/// The name of a hipError_t, such as "hipErrorUnknown".
const char* error_name(int code) noexcept;

/// An address, or the handle of a stream, for messages: "0x7f12c0000000", and "0x0" for null.
std::string address_text(const void* address);

/// Tells the error handler that `subject` is not as it should be, by a whole sentence: nothing has
/// failed that the caller would have to know of, and something else is done instead.
void warn(const char* subject, const std::string& sentence) noexcept;

/// What threads have for the error handler while a lock is held, told when this is destroyed,
/// behind the lock: so the handler may use the library. One thread at a time adds.
class held_reports {
 public:
  held_reports() = default;
  ~held_reports();
  held_reports(const held_reports&) = delete;
  held_reports& operator=(const held_reports&) = delete;
  /// Returns false, nothing kept, when there is no memory for it: it is told at once then.
  bool add(const char* call, int code, const char* message) noexcept;

 private:
  struct held_report {
    std::string call;
    int code;
    std::string message;
  };
  std::vector<held_report> reports_;
};

/// While this lives, what its thread has for the error handler goes to `place`.
class reports_wait {
 public:
  explicit reports_wait(held_reports& place) noexcept;
  ~reports_wait();
  reports_wait(const reports_wait&) = delete;
  reports_wait& operator=(const reports_wait&) = delete;

 private:
  held_reports* before_;
};

/// Clears HIP's last error: a failure that became an exception must not surface in the
/// application's next hipGetLastError.
void clear_last_error() noexcept;

/// Whether a query answered that work is not done: no failure, and none must surface as HIP's last
/// error. Before ROCm 7.0 it does, as every call's result replaces the one before; later, and on
/// CUDA, the last error is still the application's own and stays.
bool is_not_ready(hipError_t result) noexcept;

/// As check, for a call that takes `bytes` of `device` or file descriptors for them: throws
/// out_of_memory where HIP says so, and for any failure of a process that has hardly a descriptor
/// left, naming these as the cause. On ROCm 7.14 every chunk costs one, and the runtime reports
/// their end as lack of memory (ROCm/rocm-systems#10604).
void check_resources(hipError_t result, const char* call, device_ref device, std::size_t bytes,
                     std::source_location where = std::source_location::current());

/// Bytes of `device` that were given up and come back to it when work under way is done.
using retired_bytes_function = std::size_t (*)(device_ref device);

/// Sets who is asked for the retired bytes that the message of out_of_memory names: the layer that
/// retires memory, when it first does.
void set_retired_bytes_function(retired_bytes_function function) noexcept;

/// As check, for a call that takes `bytes` of the host's memory.
void check_host_memory(hipError_t result, const char* call, std::size_t bytes,
                       std::source_location where = std::source_location::current());

/// Throws out_of_memory for `bytes` of the host's memory that `call` did not give.
[[noreturn]] void throw_out_of_host_memory(std::size_t bytes, const char* call);

/// Runs `body` and tells the error handler of a hip_error instead of throwing it.
void report_exceptions_of(void (*body)(void*), void* argument) noexcept;

/// Runs a callable as report_exceptions_of does.
template <typename Body>
void report_exceptions(Body body) noexcept {
  report_exceptions_of([](void* argument) { (*static_cast<Body*>(argument))(); }, &body);
}

}  // namespace hipvmm::detail

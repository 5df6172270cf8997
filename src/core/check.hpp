// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <exception>
#include <source_location>
#include <string>
#include <type_traits>

namespace hipvmm::detail {

[[noreturn]] void throw_failure(hipError_t result, const char* call, std::source_location where);

/// Throws hip_error unless `result` is hipSuccess. `call` is the HIP function's name.
inline void check(hipError_t result, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result != hipSuccess) [[unlikely]]
    throw_failure(result, call, where);
}

/// `context` continues the sentence.
[[noreturn]] void throw_failure(hipError_t result, const char* call, const std::string& context,
                                std::source_location where = std::source_location::current());

[[noreturn]] void throw_stream_failure(hipError_t result, const char* call, hipStream_t stream,
                                       std::source_location where);

/// Like check(), for a call that names a stream: the text of a stream that does not exist says so.
inline void check_stream(hipError_t result, const char* call, hipStream_t stream,
                         std::source_location where = std::source_location::current()) {
  if (result != hipSuccess) [[unlikely]]
    throw_stream_failure(result, call, stream, where);
}

[[nodiscard]] bool is_stream_missing(hipError_t result) noexcept;

[[nodiscard]] std::string missing_stream_text(hipStream_t stream);

/// Reports a failure that cannot be thrown to the error handler. Does nothing for hipSuccess.
/// `context`, empty or "; " and more, continues the sentence.
void report(hipError_t result, const char* call, const char* context = "") noexcept;

/// Formats an address or the handle of a stream for messages: "0x7f12c0000000", and "0x0" for null.
std::string address_text(const void* address);

/// Warns the error handler about `subject`, by a whole sentence: something else is done instead.
void warn(const char* subject, const std::string& sentence) noexcept;

/// Clears HIP's last error: a failure that was thrown must not appear in the next hipGetLastError.
void clear_last_error() noexcept;
/// The same, and returns the error: for calls that return none.
[[nodiscard]] hipError_t take_last_error() noexcept;

/// True for hipErrorNotReady, which must not stay as HIP's last error: before ROCm 7.0 every result
/// replaces the last error; later, and on CUDA, the last error stays the application's own.
bool is_not_ready(hipError_t result) noexcept;

/// Like check(), for a call that allocates `bytes` of host memory.
void check_host_memory(hipError_t result, const char* call, std::size_t bytes,
                       std::source_location where = std::source_location::current());

[[noreturn]] void throw_out_of_host_memory(std::size_t bytes, const char* call);

/// Throws the handled exception again, with `context` behind its sentence: out_of_memory and
/// hip_error as such, others as a std::runtime_error.
[[noreturn]] void throw_with_context(const std::string& context);

/// Reports the handled exception to the error handler.
void report_caught() noexcept;

/// Reports an exception of `body` and returns false; else returns its result, or true for none.
template <typename Body>
bool report_exceptions(Body body) noexcept {
  try {
    if constexpr (!std::is_void_v<decltype(body())>) return body();
    body();
    return true;
  } catch (...) {
    report_caught();
    return false;
  }
}

/// Runs a callback of the program. An exception of it becomes a warning about `topic`.
template <typename Callback>
void run_callback(const char* topic, Callback callback) noexcept {
  try {
    callback();
  } catch (const std::exception& error) {
    report_exceptions([&] { warn(topic, std::string{"the callback threw: "} + error.what()); });
  } catch (...) {
    report_exceptions(
        [&] { warn(topic, "the callback threw something other than a std::exception"); });
  }
}

}  // namespace hipvmm::detail

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

inline void check(hipError_t result, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result != hipSuccess) [[unlikely]]
    throw_failure(result, call, where);
}

[[noreturn]] void throw_failure(hipError_t result, const char* call, const std::string& context,
                                std::source_location where = std::source_location::current());

[[noreturn]] void throw_stream_failure(hipError_t result, const char* call, hipStream_t stream,
                                       std::source_location where);

/// Like check(); the message says if `stream` does not exist.
inline void check_stream(hipError_t result, const char* call, hipStream_t stream,
                         std::source_location where = std::source_location::current()) {
  if (result != hipSuccess) [[unlikely]]
    throw_stream_failure(result, call, stream, where);
}

[[nodiscard]] bool is_stream_missing(hipError_t result) noexcept;

[[nodiscard]] std::string missing_stream_text(hipStream_t stream);

/// Reports to the error handler a failure that cannot be thrown, unless the runtime has shut down.
/// `context` is empty, or "; " and the rest of the sentence.
void report(hipError_t result, const char* call, const char* context = "") noexcept;

/// For messages: "0x7f12c0000000", and "0x0" for null, which %p writes as "(nil)".
std::string address_text(const void* address);

/// Sends the error handler a whole sentence: the library did something else than requested.
void warn(const char* subject, const std::string& sentence) noexcept;

/// Clears HIP's last error: a failure that was thrown must not appear in the next hipGetLastError.
void clear_last_error() noexcept;
/// Also returns that error, for HIP calls that return none.
[[nodiscard]] hipError_t take_last_error() noexcept;

/// Whether `result` is hipErrorNotReady. Clears it as HIP's last error, which it becomes only
/// before ROCm 7.0; another last error stays.
bool is_not_ready(hipError_t result) noexcept;

void check_host_memory(hipError_t result, const char* call, std::size_t bytes,
                       std::source_location where = std::source_location::current());

[[noreturn]] void throw_out_of_host_memory(std::size_t bytes, const char* call);

/// Throws the handled exception again, with `context` behind its sentence. Others than
/// out_of_memory and hip_error become a std::runtime_error.
[[noreturn]] void throw_with_context(const std::string& context);

void report_caught() noexcept;

/// Returns the result of `body`, or true for void. If `body` throws, reports the exception and
/// returns false.
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

/// An exception of the program's callback becomes a warning about `topic`.
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

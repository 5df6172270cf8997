// SPDX-License-Identifier: MIT
#include "core/check.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include <hipvmm/core/error.hpp>
#include "core/error.hpp"
#include "core/logger.hpp"

namespace hipvmm::detail {
namespace {

void tell(const char* call, int code, const char* message) noexcept {
  // A text on standard error is not logged there as well.
  if (!is_default_error_handler() || !logs_to_stderr())
    log<log_level::error>(
        [&] { return std::string{call} + ": " + message + " (" + std::to_string(code) + ")"; });
  deliver(call, code, message);
}

}  // namespace

hipError_t take_last_error() noexcept { return hipGetLastError(); }

void clear_last_error() noexcept { static_cast<void>(take_last_error()); }

bool is_not_ready(hipError_t result) noexcept {
  if (result != hipErrorNotReady) return false;
  if (hipPeekAtLastError() == hipErrorNotReady) clear_last_error();
  return true;
}

void check_host_memory(hipError_t result, const char* call, std::size_t bytes,
                       std::source_location where) {
  if (result == hipErrorOutOfMemory) {
    clear_last_error();
    throw_out_of_host_memory(bytes, call);
  }
  check(result, call, where);
}

void throw_out_of_host_memory(std::size_t bytes, const char* call) {
  const auto pages = static_cast<std::size_t>(std::max(::sysconf(_SC_AVPHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  throw out_of_memory{exhausted::host_memory, -1, bytes, pages * page_bytes,
                      std::string{call} + " refused"};
}

std::string address_text(const void* address) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text.data();
}

void throw_with_context(const std::string& context) {
  try {
    throw;
  } catch (const out_of_memory& cause) {
    throw out_of_memory{cause, context};
  } catch (const hip_error& cause) {
    throw hip_error{cause, context};
  } catch (const std::exception& cause) {
    throw std::runtime_error{std::string{cause.what()} + "; " + context};
  }
}

void warn(const char* subject, const std::string& sentence) noexcept {
  tell(subject, static_cast<int>(hipErrorUnknown), sentence.c_str());
}

void throw_failure(hipError_t result, const char* call, std::source_location where) {
  clear_last_error();
  log<log_level::debug>([&] { return std::string{call} + " returned " + error_name(result); });
  throw hip_error{static_cast<int>(result), call, where.file_name(), where.line()};
}

void throw_failure(hipError_t result, const char* call, const std::string& context,
                   std::source_location where) {
  clear_last_error();
  log<log_level::debug>(
      [&] { return std::string{call} + " returned " + error_name(result) + ": " + context; });
  throw hip_error{static_cast<int>(result), call, context, where.file_name(), where.line()};
}

bool is_stream_missing(hipError_t result) noexcept {
  // ROCm up to 6.4 returns hipErrorContextIsDestroyed.
  return result == hipErrorInvalidHandle || result == hipErrorContextIsDestroyed;
}

std::string missing_stream_text(hipStream_t stream) {
  return "stream " + address_text(stream) +
         " does not exist: it was destroyed or never created; keep streams until their last use";
}

void throw_stream_failure(hipError_t result, const char* call, hipStream_t stream,
                          std::source_location where) {
  if (is_stream_missing(result)) throw_failure(result, call, missing_stream_text(stream), where);
  throw_failure(result, call, where);
}

void report(hipError_t result, const char* call, const char* context) noexcept {
  if (result == hipSuccess || result == hipErrorDeinitialized) return;
  clear_last_error();
  std::string text;
  try {
    text = std::string{error_name(result)} + context;
  } catch (const std::bad_alloc&) {
  }
  tell(call, static_cast<int>(result), text.empty() ? error_name(result) : text.c_str());
}

void report_caught() noexcept {
  try {
    throw;
  } catch (const hip_error& error) {
    report(static_cast<hipError_t>(error.code()), error.call(), context_of(error));
  } catch (const std::exception& error) {
    tell("hipvmm", static_cast<int>(hipErrorUnknown), error.what());
  } catch (...) {
    tell("hipvmm", static_cast<int>(hipErrorUnknown), "an exception that is no std::exception");
  }
}

}  // namespace hipvmm::detail

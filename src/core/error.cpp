// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/log.hpp"

namespace hipvmm {
namespace {

std::string describe(int code, const char* call) {
  const auto error = static_cast<hipError_t>(code);
  return std::string{call} + " failed: " + hipGetErrorName(error) + " (" + std::to_string(code) +
         "), " + hipGetErrorString(error);
}

std::string describe(exhausted resource, int device, std::size_t requested, std::size_t free,
                     const std::string& context) {
  std::string text;
  switch (resource) {
    case exhausted::device_memory:
      text = "out of device memory: device " + std::to_string(device) + " was asked for " +
             format_bytes(requested) + " and has " + format_bytes(free) + " free";
      break;
    case exhausted::addresses:
      text = "out of addresses: no range of " + format_bytes(requested) +
             " is to be had; reserve less (growth_options::max_bytes)";
      break;
    case exhausted::descriptors:
      text = "descriptor limit reached: too few file descriptors are left for a chunk of " +
             format_bytes(requested) + " on device " + std::to_string(device) + ", which has " +
             format_bytes(free) +
             " free; raise `ulimit -n`, use larger chunks (growth_options::granule_bytes) or trim "
             "chunk_cache";
      break;
    case exhausted::host_memory:
      text = "out of host memory: the host was asked for " + format_bytes(requested) + " and has " +
             format_bytes(free) + " free";
      break;
    case exhausted::limit:
      text = "limit reached: " + format_bytes(requested) + " were asked for and " +
             format_bytes(free) + " are left";
      break;
  }
  return context.empty() ? text : text + "; " + context;
}

/// Whether `call` names a HIP function, such as hipMemUnmap, and no subject of the library's own.
bool is_hip_function(std::string_view call) noexcept {
  return call.starts_with("hip") && call.size() > 3 && call[3] >= 'A' && call[3] <= 'Z';
}

/// The default handler. All but failed calls of HIP are whole sentences, whose code says nothing.
void write_to_stderr(const char* call, int code, const char* message) noexcept {
  if (is_hip_function(call))
    std::fprintf(stderr, "hipvmm: %s failed where nothing can be thrown: %s (%d)\n", call, message,
                 code);
  else if (call == std::string_view{"hipvmm"})
    std::fprintf(stderr, "hipvmm: %s\n", message);
  else
    std::fprintf(stderr, "hipvmm: %s: %s\n", call, message);
}

std::atomic<error_handler> current_handler{write_to_stderr};

std::atomic<detail::retired_bytes_function> retired_bytes_of{nullptr};

std::string describe_retired(device_ref device) {
  const detail::retired_bytes_function function = retired_bytes_of.load();
  const std::size_t bytes = function != nullptr ? function(device) : 0;
  if (bytes == 0) return {};
  return format_bytes(bytes) +
         " more are retired and come back when the work that may use them is done; "
         "drain_retired_memory() waits for that";
}

// Where what this thread has for the handler waits.
thread_local detail::held_reports* waiting_place = nullptr;

void tell(const char* call, int code, const char* message) noexcept {
  if (waiting_place != nullptr && waiting_place->add(call, code, message)) return;
  const error_handler handler = current_handler.load();
  // What stands on standard error already is not logged there as well.
  if (handler != write_to_stderr || !detail::logs_to_stderr())
    detail::log<log_level::error>(
        [&] { return std::string{call} + ": " + message + " (" + std::to_string(code) + ")"; });
  handler(call, code, message);
}

}  // namespace

hip_error::hip_error(int code, const char* call, const char* file, unsigned line)
    : std::runtime_error{describe(code, call)},
      code_{code},
      call_{call},
      file_{file},
      line_{line} {}

hip_error::hip_error(int code, const char* call, const std::string& context, const char* file,
                     unsigned line)
    : std::runtime_error{describe(code, call) + "; " + context},
      code_{code},
      call_{call},
      file_{file},
      line_{line} {}

out_of_memory::out_of_memory(exhausted resource, int device, std::size_t bytes_requested,
                             std::size_t bytes_free, const std::string& context)
    : resource_{resource},
      device_{device},
      bytes_requested_{bytes_requested},
      bytes_free_{bytes_free},
      message_{std::make_shared<const std::string>(
          describe(resource, device, bytes_requested, bytes_free, context))} {}

out_of_memory::out_of_memory(const std::string& message)
    : resource_{exhausted::limit},
      device_{-1},
      bytes_requested_{0},
      bytes_free_{0},
      message_{std::make_shared<const std::string>(message)} {}

out_of_memory::out_of_memory(const out_of_memory& cause, const std::string& context)
    : out_of_memory{cause} {
  message_ = std::make_shared<const std::string>(*cause.message_ + "; " + context);
}

error_handler set_error_handler(error_handler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : write_to_stderr);
}

namespace detail {

void clear_last_error() noexcept { static_cast<void>(hipGetLastError()); }

bool is_not_ready(hipError_t result) noexcept {
  if (result != hipErrorNotReady) return false;
  if (hipPeekAtLastError() == hipErrorNotReady) clear_last_error();
  return true;
}

const char* error_name(int code) noexcept { return hipGetErrorName(static_cast<hipError_t>(code)); }

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
  // %p writes null as "(nil)".
  std::snprintf(text.data(), text.size(), "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text.data();
}

void warn(const char* subject, const std::string& sentence) noexcept {
  tell(subject, static_cast<int>(hipErrorUnknown), sentence.c_str());
}

bool held_reports::add(const char* call, int code, const char* message) noexcept {
  try {
    reports_.push_back({call, code, message});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

held_reports::~held_reports() {
  for (const held_report& each : reports_) tell(each.call.c_str(), each.code, each.message.c_str());
}

reports_wait::reports_wait(held_reports& place) noexcept
    : before_{std::exchange(waiting_place, &place)} {}

reports_wait::~reports_wait() { waiting_place = before_; }

void check(hipError_t result, const char* call, std::source_location where) {
  if (result == hipSuccess) return;
  clear_last_error();
  log<log_level::debug>([&] { return std::string{call} + " returned " + hipGetErrorName(result); });
  throw hip_error{static_cast<int>(result), call, where.file_name(), where.line()};
}

void report(hipError_t result, const char* call) noexcept {
  // After the runtime has shut down at process exit, its memory is gone and nothing is lost.
  if (result == hipSuccess || result == hipErrorDeinitialized) return;
  clear_last_error();
  tell(call, static_cast<int>(result), hipGetErrorName(result));
}

void report_exceptions_of(void (*body)(void*), void* argument) noexcept {
  try {
    body(argument);
  } catch (const hip_error& error) {
    report(static_cast<hipError_t>(error.code()), error.call());
  } catch (const std::exception& error) {
    tell("hipvmm", static_cast<int>(hipErrorUnknown), error.what());
  }
}

void set_retired_bytes_function(retired_bytes_function function) noexcept {
  retired_bytes_of = function;
}

void check_resources(hipError_t result, const char* call, device_ref device, std::size_t bytes,
                     std::source_location where) {
  if (result == hipSuccess) return;
  // A call may need several and has closed what it got when it fails: one or two left are too few.
  constexpr std::size_t enough = 4;
  const std::size_t limit = descriptor_limit();
  const std::size_t left = free_descriptors(limit, enough);
  if (result != hipErrorOutOfMemory && left == enough) check(result, call, where);
  clear_last_error();
  log<log_level::debug>([&] {
    return std::string{call} + " returned " + hipGetErrorName(result) + " for " +
           format_bytes(bytes) + " of device " + std::to_string(device.ordinal());
  });
  if (left == enough)
    throw out_of_memory{exhausted::device_memory, device.ordinal(), bytes, device.free_memory(),
                        describe_retired(device)};
  throw out_of_memory{exhausted::descriptors, device.ordinal(), bytes, device.free_memory(),
                      std::string{call} + " returned " + hipGetErrorName(result) + " while " +
                          std::to_string(limit - left) + " of the " + std::to_string(limit) +
                          " descriptors that this process may have are open"};
}

}  // namespace detail
}  // namespace hipvmm

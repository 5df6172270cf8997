// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"

namespace hipvmm {
namespace {

std::string describe(int code, const char* call, const char* file, unsigned line) {
  const auto error = static_cast<hipError_t>(code);
  return std::string{call} + " failed: " + hipGetErrorName(error) + " (" + std::to_string(code) +
         "), " + hipGetErrorString(error) + " [" + file + ":" + std::to_string(line) + "]";
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
      text = "descriptor limit reached: no file descriptor is left for a chunk of " +
             format_bytes(requested) + " on device " + std::to_string(device) + ", which has " +
             format_bytes(free) + " free; raise `ulimit -n` or use larger chunks";
      break;
  }
  return context.empty() ? text : text + "; " + context;
}

void write_to_stderr(const char* call, int code, const char* message) noexcept {
  std::fprintf(stderr, "hipvmm: %s failed where nothing can be thrown: %s (%d)\n", call, message,
               code);
}

std::atomic<error_handler> current_handler{write_to_stderr};

// Asks the system rather than counting: limits differ by process and may change at any time.
bool descriptors_exhausted() {
  const int probe = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (probe < 0) return errno == EMFILE || errno == ENFILE;
  ::close(probe);
  return false;
}

}  // namespace

hip_error::hip_error(int code, const char* call, const char* file, unsigned line)
    : std::runtime_error{describe(code, call, file, line)},
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

error_handler set_error_handler(error_handler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : write_to_stderr);
}

namespace detail {

void clear_last_error() noexcept { static_cast<void>(hipGetLastError()); }

void check(hipError_t result, const char* call, std::source_location where) {
  if (result == hipSuccess) return;
  clear_last_error();
  throw hip_error{static_cast<int>(result), call, where.file_name(), where.line()};
}

void report(hipError_t result, const char* call) noexcept {
  // After the runtime has shut down at process exit, its memory is gone and nothing is lost.
  if (result == hipSuccess || result == hipErrorDeinitialized) return;
  clear_last_error();
  current_handler.load()(call, static_cast<int>(result), hipGetErrorName(result));
}

void report_exceptions_of(void (*body)(void*), void* argument) noexcept {
  try {
    body(argument);
  } catch (const hip_error& error) {
    report(static_cast<hipError_t>(error.code()), error.call());
  } catch (const std::exception& error) {
    current_handler.load()("hipvmm", static_cast<int>(hipErrorUnknown), error.what());
  }
}

void throw_out_of_memory(device_ref device, std::size_t bytes) {
  clear_last_error();
  const auto resource = descriptors_exhausted() ? exhausted::descriptors : exhausted::device_memory;
  throw out_of_memory{resource, device.ordinal(), bytes, device.free_memory(), {}};
}

}  // namespace detail
}  // namespace hipvmm

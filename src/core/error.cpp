// SPDX-License-Identifier: MIT
#include <hipvmm/core/error.hpp>

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <string_view>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "core/error.hpp"

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
      text = "out of device memory: device " + std::to_string(device) +
             (requested == 0 ? "" : " was asked for " + format_bytes(requested) + " and") +
             " has " + format_bytes(free) + " free";
      break;
    case exhausted::addresses:
      text = "out of addresses: no range of " + format_bytes(requested) +
             " is to be had; reserve less (growth_options::max_bytes)";
      break;
    case exhausted::descriptors:
      text = "descriptor limit reached: too few file descriptors are left";
      // Where it is no chunk that lacks them, there is no device.
      if (device < 0) break;
      text += (requested == 0 ? "" : " for a chunk of " + format_bytes(requested)) + " on device " +
              std::to_string(device) + ", which has " + format_bytes(free) +
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

// Where what this thread has for the handler waits.
thread_local detail::held_reports* waiting_place = nullptr;

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

const char* error_name(int code) noexcept { return hipGetErrorName(static_cast<hipError_t>(code)); }

bool is_default_error_handler() noexcept { return current_handler.load() == write_to_stderr; }

void deliver(const char* call, int code, const char* message) noexcept {
  if (waiting_place == nullptr || !waiting_place->add(call, code, message))
    current_handler.load()(call, code, message);
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
  for (const held_report& each : reports_)
    deliver(each.call.c_str(), each.code, each.message.c_str());
}

reports_wait::reports_wait(held_reports& place) noexcept
    : before_{std::exchange(waiting_place, &place)} {}

reports_wait::~reports_wait() { waiting_place = before_; }

}  // namespace detail
}  // namespace hipvmm

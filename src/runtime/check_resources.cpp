// SPDX-License-Identifier: MIT
#include "runtime/check_resources.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"

namespace hipvmm::detail {
namespace {

std::atomic<retired_bytes_function> retired_bytes_of{nullptr};

std::string describe_retired(device_ref device) {
  const retired_bytes_function function = retired_bytes_of.load();
  const std::size_t bytes = function != nullptr ? function(device) : 0;
  if (bytes == 0) return {};
  return format_bytes(bytes) +
         " more are retired and become free when the work that may use them is done; "
         "drain_retired_memory() waits for that";
}

}  // namespace

void set_retired_bytes_function(retired_bytes_function function) noexcept {
  retired_bytes_of = function;
}

void check_resources(hipError_t result, const char* call, device_ref device, std::size_t bytes,
                     std::source_location where) {
  if (result == hipSuccess) return;
  // A failed call has closed those that it opened: one or two left are too few.
  constexpr std::size_t enough = 4;
  const std::size_t limit = descriptor_limit();
  const std::size_t left = free_descriptors(limit, enough);
  if (result != hipErrorOutOfMemory && left == enough) check(result, call, where);
  clear_last_error();
  log<log_level::debug>([&] {
    return std::string{call} + " returned " + error_name(result) + " for " + format_bytes(bytes) +
           " of device " + std::to_string(device.ordinal());
  });
  if (left == enough) {
    std::string context = describe_retired(device);
    if (bytes == 0)
      context = std::string{call} + " does not say how much it needs: free memory" +
                (context.empty() ? "" : "; " + context);
    const std::size_t free = device.free_memory();
    // Free memory may exceed a total that is a part of the host's memory.
    const std::size_t total = std::max(device.total_memory(), free);
    throw out_of_memory{shortage{.cause = exhausted::device_memory,
                                 .device = device.ordinal(),
                                 .requested = bytes,
                                 .available = free,
                                 .most = bytes > total ? total : 0,
                                 .context = context}};
  }
  throw out_of_memory{exhausted::descriptors, device.ordinal(), bytes, device.free_memory(),
                      std::string{call} + " returned " + error_name(result) + " while " +
                          std::to_string(limit - left) + " of the " + std::to_string(limit) +
                          " descriptors that this process may have are open"};
}

}  // namespace hipvmm::detail

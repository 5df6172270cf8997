// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace hipvmm::host_provider {

/// Calls that fail, and how: call number `nth`, or each with a probability.
struct fault_rule {
  std::string function;   // empty: any that can fail
  std::uint64_t nth = 0;  // counted down from now on; 0: by probability
  double probability = 1;
  std::mt19937_64 random{0};  // the standard fixes its numbers, so a seed means the same everywhere
  std::chrono::nanoseconds delay{0};
  std::optional<pid_t> victim;  // killed; 0 is this process
  bool aborts = false;
  std::optional<hipError_t> error;

  /// Counts a call, and returns whether the rule applies to it.
  bool strikes(std::string_view called);
};

/// A plan: rules for calls, and limits below those of the machine.
struct fault_settings {
  std::vector<fault_rule> rules;
  /// Of each device; HIP reports the memory of the device unchanged.
  std::size_t device_bytes = std::numeric_limits<std::size_t>::max();
  /// Chunks alive in the process, as if each took a file descriptor.
  std::size_t chunks = std::numeric_limits<std::size_t>::max();
  /// So long copies and fills do not reach a new mapping.
  std::chrono::nanoseconds unseen{0};
  /// A second address of a chunk misses bytes written at another.
  bool incoherent_aliases = false;
  /// Reservations do not begin at the requested address.
  bool ignored_hints = false;
};

/// Reads a plan in the language of providers/host/docs/environment.md. Throws:
/// std::invalid_argument that quotes the rule and names the accepted values.
fault_settings parse_faults(std::string_view text);

}  // namespace hipvmm::host_provider

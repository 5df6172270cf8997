// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// How a process takes part in a memory_budget.
struct budget_options {
  /// Who is asked to release memory: holders of a lower priority first, then those of the same, the
  /// one that holds most first. Those of a higher priority are not asked.
  int priority = 0;
  /// How long a request of this process waits at most for memory of others.
  std::chrono::milliseconds patience{1000};
  /// Is called when other processes need `bytes` more than what this one could release by itself,
  /// which is what its chunk_cache::shared() keeps. It may trim pools, evict blocks, suspend a
  /// memory_tag. A thread of the library calls it, one call at a time. While this process waits for
  /// memory itself, it is not called. What it throws goes to the error handler. It must not end the
  /// memory_budget.
  std::function<void(std::size_t bytes)> trim = {};
};

/// A process that takes part in a budget.
struct budget_holder {
  int process;          ///< its process ID
  std::string program;  ///< its name, at most 31 characters
  int priority;
  std::size_t bytes;        ///< that it holds
  std::size_t waiting_for;  ///< bytes that it waits for now
};

/// A budget, and who holds what of it, at one moment.
struct budget_report {
  std::string name;
  device_uuid device;
  std::size_t limit;                   ///< in bytes
  std::size_t bytes;                   ///< that all holders hold; may exceed a limit set later
  std::vector<budget_holder> holders;  ///< in no order
};

}  // namespace hipvmm

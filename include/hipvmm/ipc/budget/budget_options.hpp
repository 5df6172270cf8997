// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

struct budget_options {
  /// Holders of a lower priority are asked first to release memory, then those of the same
  /// priority, the largest holder first. Holders of a higher priority are not asked.
  int priority = 0;
  std::chrono::milliseconds patience{1000};  ///< the longest wait of a request for other processes
  /// Called if other processes need `bytes` more than this process can release by itself. It may
  /// trim pools, evict blocks or suspend a memory_tag, but not destroy the memory_budget. A thread
  /// of the library calls it, one call at a time, and never while this process waits for memory.
  /// Exceptions go to the error handler.
  std::function<void(std::size_t bytes)> trim = {};
};

struct budget_holder {
  int process;          ///< its process ID
  std::string program;  ///< its name, at most 31 characters
  int priority;
  std::size_t bytes;
  std::size_t waiting_for;  ///< bytes for which its requests wait now
};

struct budget_report {
  std::string name;
  device_uuid device;
  std::size_t limit;  ///< in bytes
  std::size_t bytes;  ///< of all holders; may exceed a limit that was lowered
  std::vector<budget_holder> holders;
};

}  // namespace hipvmm

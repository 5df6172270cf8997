// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace hipvmm::detail {

/// A process's ID and start time: a later process with that ID differs. Zero is none.
using process_identity = std::uint64_t;

/// Throws: ipc_error `system` if /proc cannot be read; `refused` if it is another PID namespace's.
[[nodiscard]] process_identity own_process_identity();
[[nodiscard]] ::pid_t process_of(process_identity identity) noexcept;
/// Returns whether the process runs; a zombie does not. True if the system gives no answer.
/// - If /proc hides the process (hidepid, of another user or not dumpable), only its ID is checked:
///   a later process with that ID counts as the same.
/// Pre: it is of this PID and time namespace.
[[nodiscard]] bool is_running(process_identity identity) noexcept;

/// Process IDs are valid in `pid`, start times and deadlines in `time`.
struct process_namespaces {
  std::uint64_t pid;
  std::uint64_t time;  ///< zero if the system has none
};
/// Throws: ipc_error `system` if /proc cannot be read.
[[nodiscard]] process_namespaces own_namespaces();

}  // namespace hipvmm::detail

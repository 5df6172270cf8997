// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm {

/// Memory that this process has released and that returns to its device or chunk cache once work in
/// flight has ended. If the work has ended already, a trim or decommit releases at once and is not
/// counted.
struct retirement_statistics {
  std::size_t waiting_bytes;
  std::size_t waiting;         ///< trims, decommits and destructions that wait
  std::size_t returned_bytes;  ///< since the process began
  std::size_t returned;        ///< trims, decommits and destructions that wait no longer
};

/// Thread-safe.
[[nodiscard]] retirement_statistics retired_memory();

/// Waits until all memory and addresses retired before this call have been released. Thread-safe.
/// Returns at once in an error handler that a releasing thread of the library runs. Few programs
/// need it: growth that lacks memory or addresses drains as much as it needs, and process exit
/// drains all.
/// Throws: hip_error with hipErrorStreamCaptureUnsupported if a stream capture forbids the wait for
/// longer than 100 ms.
void drain_retired_memory();

}  // namespace hipvmm

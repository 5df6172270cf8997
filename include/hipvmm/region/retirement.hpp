// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm {

/// Counts of memory that regions and vectors of this process released while work in flight could
/// still use it. It returns to the device, or to its chunk cache, once that work is done. Memory
/// that an idle stream had used is released at once and not counted.
struct retirement_statistics {
  std::size_t waiting_bytes;   ///< physical memory that waits for work to finish
  std::size_t waiting;         ///< trims, decommits and destructions that wait
  std::size_t returned_bytes;  ///< physical memory released since the process began
  std::size_t returned;        ///< trims, decommits and destructions that wait no longer
};

/// Any thread may call it.
[[nodiscard]] retirement_statistics retired_memory();

/// Waits until all memory and addresses retired before this call have been released. Any thread may
/// call it; in an error handler that a releasing thread of the library runs, it returns at once.
/// Growth that finds the device full, or no addresses, drains as much as it needs; the end of the
/// process drains all.
/// Throws: hip_error with hipErrorStreamCaptureUnsupported if the runtime forbids to wait for
/// devices during a capture, and one is open for longer than 100 ms.
void drain_retired_memory();

}  // namespace hipvmm

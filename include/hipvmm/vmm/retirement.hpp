// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm {

/// What regions and vectors of this process gave up while work in flight could still use it. It
/// comes back to the device, or to its chunk cache, when that work has passed.
struct retirement_statistics {
  std::size_t waiting_bytes;   ///< physical memory that waits for work to pass
  std::size_t waiting;         ///< trims and destructions that wait
  std::size_t returned_bytes;  ///< physical memory that has come back since the process began
  std::size_t returned;        ///< trims and destructions whose wait is over
};

/// Counts what was retired; what an idle stream had used came back at once and is not counted.
/// Any thread may call it.
[[nodiscard]] retirement_statistics retired_memory();

/// Waits until all memory and addresses retired before this call have come back. Any thread may
/// call it but that of an error handler, where it returns at once. Growth that finds the device
/// full, or no addresses, does as much of it as it needs; the end of the process does all.
/// Throws: hip_error with hipErrorStreamCaptureUnsupported when the runtime forbids to wait for
/// devices beside a capture, and one is open for longer than 100 ms.
void drain_retired_memory();

}  // namespace hipvmm

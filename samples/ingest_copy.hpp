// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "ingest_job.hpp"

namespace ingest {

/// Bytes in plain device memory. When they are full, twice as much is allocated, the bytes are
/// copied and the old memory freed: for a moment both exist, and every pointer into them dies.
[[nodiscard]] std::unique_ptr<device_bytes> make_copied_bytes(hipvmm::device_ref device);

}  // namespace ingest

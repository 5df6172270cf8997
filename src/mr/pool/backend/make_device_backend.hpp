// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include "mr/pool/backend/device_backend.hpp"

namespace hipvmm::mr::pool {

/// Makes a backend of virtual-memory chunks or, as `fallback` says, of hipMalloc slabs.
/// Throws: out_of_memory when the addresses are not available; unsupported where the device lacks
/// what is asked for: virtual memory by `fallback`, chunks to share, uncached chunks. Of `chunks`
/// shareable and memory count. Chunks get the addresses of address_share(needed_bytes,
/// address_bytes).
[[nodiscard]] std::unique_ptr<device_backend> make_device_backend(device_ref device,
                                                                  std::size_t needed_bytes,
                                                                  std::size_t address_bytes,
                                                                  const region_options& chunks,
                                                                  without_vmm fallback);

}  // namespace hipvmm::mr::pool

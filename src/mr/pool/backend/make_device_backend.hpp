// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "mr/pool/backend/device_backend.hpp"

namespace hipvmm::mr::pool {

/// Makes a backend of virtual-memory chunks or, on a device without virtual memory, of hipMalloc
/// slabs.
/// Throws: out_of_memory when the addresses are not available; unsupported where `fallback` is
/// refuse and the device needs it, or cannot share what is to be `shareable`.
[[nodiscard]] std::unique_ptr<device_backend> make_device_backend(device_ref device,
                                                                  std::size_t address_bytes,
                                                                  handle_type shareable,
                                                                  without_vmm fallback);

}  // namespace hipvmm::mr::pool

// SPDX-License-Identifier: MIT
#include "mr/pool/backend/make_device_backend.hpp"

#include <hipvmm/capability/capability.hpp>
#include "mr/pool/backend/region_backend.hpp"
#include "mr/pool/backend/slab_backend.hpp"

namespace hipvmm::mr::pool {

std::unique_ptr<device_backend> make_device_backend(device_ref device, std::size_t address_bytes,
                                                    handle_type shareable, without_vmm fallback) {
  if (fallback == without_vmm::use_hip_malloc &&
      capability_of(device).path() == memory_path::fallback)
    return std::make_unique<slab_backend>(device, address_bytes, shareable);
  return std::make_unique<region_backend>(device, address_bytes, shareable);
}

}  // namespace hipvmm::mr::pool

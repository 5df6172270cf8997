// SPDX-License-Identifier: MIT
#include "mr/pool/backend/make_device_backend.hpp"

#include <hipvmm/capability/capability.hpp>
#include "mr/pool/backend/region_backend.hpp"
#include "mr/pool/backend/slab_backend.hpp"
#include "region/available.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::mr::pool {

std::unique_ptr<device_backend> make_device_backend(device_ref device, std::size_t needed_bytes,
                                                    std::size_t address_bytes,
                                                    const region_options& chunks,
                                                    without_vmm fallback) {
  const capability found = capability_of(device);
  const bool has_vmm = found.path() != memory_path::fallback;
  if (fallback == without_vmm::always || (!has_vmm && fallback == without_vmm::use_hip_malloc))
    return std::make_unique<slab_backend>(device, address_bytes, chunks);
  if (has_vmm && chunks.memory == chunk_memory::uncached)
    detail::memory_strategy{{{device, found}}}.uncached_chunks.require("pool_options::memory");
  return std::make_unique<region_backend>(
      device, detail::address_share(device, needed_bytes, address_bytes), chunks);
}

}  // namespace hipvmm::mr::pool

// SPDX-License-Identifier: MIT
#include "mr/pool/backend/slab_backend.hpp"

#include <new>
#include <string>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "region/device_work.hpp"
#include "region/retirement.hpp"

namespace hipvmm::mr::pool {
slab_backend::slab_backend(device_ref device, std::size_t address_bytes,
                           const region_options& chunks)
    : device_backend{{.address_bytes = align_up(address_bytes, 2 * MiB),
                      .granularity = 2 * MiB,
                      .moves_chunks = false}},
      device_{device},
      why_{detail::why_no_chunks(device, "pool_options::fallback is without_vmm::always")},
      rights_{device} {
  detail::require_not_shareable(chunks.shareable, "pool_options::shareable", device, why_);
  if (chunks.memory != chunk_memory::standard)
    throw unsupported{"pool_options::memory on device " + std::to_string(device.ordinal()) +
                      ": only chunks can be uncached, and the pool has slabs of hipMalloc, for " +
                      why_ + "; use chunk_memory::standard"};
}

slab_backend::~slab_backend() {
  try {
    for (auto& entry : slabs_.all()) {
      detail::device_list users = detail::devices_of(rights_.users());
      detail::release_when_unused(std::move(entry.second.memory), std::move(users));
    }
  } catch (const std::bad_alloc&) {
    // The rest ends with its owner, which waits for its own device only.
    for (const access_desc& each : rights_.all().entries())
      detail::report_exceptions([&each] { each.device.synchronize(); });
  }
}

device_allocation slab_backend::allocate(std::size_t bytes) {
  // Captures elsewhere in the program go on: hipMalloc has no part in them.
  const detail::relaxed_captures relaxed;
  // The caller waits for retired memory, without a lock.
  const detail::without_reclaim now;
  const auto take = [this](std::size_t size) {
    return detail::acquire_with_retry([&] { return device_allocation{device_, size}; });
  };
  if (is_aligned_) {
    device_allocation memory = take(bytes);
    if (reinterpret_cast<std::uintptr_t>(memory.get()) % traits.granularity == 0) return memory;
    is_aligned_ = false;
    detail::release_when_unused(std::move(memory));
  }
  return take(bytes + traits.granularity);
}

void slab_backend::create(std::size_t offset, std::size_t bytes, std::size_t) {
  device_allocation memory = allocate(bytes);
  const std::uintptr_t start =
      align_up(reinterpret_cast<std::uintptr_t>(memory.get()), traits.granularity);
  slabs_.add(offset, memory, start, bytes);
}

bool slab_backend::reclaim(const out_of_memory& shortage, std::uint64_t seen) {
  const detail::counted_scope now{reclaiming};
  return detail::reclaim_retired(shortage, seen);
}

std::unique_ptr<pending_release> slab_backend::detach(std::size_t offset, std::size_t) {
  auto one = std::make_unique<pending_release_of<device_allocation>>(
      [](device_allocation& slab) { detail::release_when_unused(std::move(slab)); });
  one->held = std::move(slabs_.take(offset).mapped().memory);
  return one;
}

region& slab_backend::chunk_region() {
  throw unsupported{
      "the chunks of a pool on device " + std::to_string(device_.ordinal()) +
      " that has slabs of hipMalloc instead, for " + why_ +
      ": HIP reports no rights to those, and exports them by hipIpcGetMemHandle only"};
}

std::string slab_backend::explain() const {
  return "slabs of hipMalloc, for " + why_ +
         ": free memory of different slabs serves no request together, and only whole slabs go "
         "back to the device";
}

}  // namespace hipvmm::mr::pool

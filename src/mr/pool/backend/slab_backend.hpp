// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/owner_process.hpp"
#include "mr/pool/backend/device_backend.hpp"
#include "mr/pool/backend/slab_table.hpp"
#include "region/device_work.hpp"
#include "region/malloc_rights.hpp"
#include "region/retirement.hpp"

namespace hipvmm::mr::pool {

/// Chunks are slabs of hipMalloc. Offset and address have the same remainder by the granularity.
class slab_backend final : public device_backend {
 public:
  slab_backend(device_ref device, std::size_t address_bytes, const region_options& chunks)
      : device_backend{{.address_bytes = align_up(address_bytes, 2 * MiB),
                        .granularity = 2 * MiB,
                        .moves_chunks = false}},
        device_{device},
        why_{detail::why_no_chunks(device, "pool_options::fallback is without_vmm::always")},
        rights_{device} {
    detail::require_not_shareable(chunks.shareable, "pool_options::shareable", device, why_);
    if (chunks.memory != chunk_memory::standard)
      throw unsupported{"pool_options::memory on device " + std::to_string(device.ordinal()) +
                        ": only chunks can be uncached, and the pool has slabs of hipMalloc, "
                        "because " +
                        why_ + "; use chunk_memory::standard"};
  }
  /// Releases everything after the present work of the devices with access.
  ~slab_backend() override {
    try {
      for (auto& entry : slabs_.all()) {
        detail::device_list users = detail::devices_of(rights_.users());
        detail::release_when_unused(std::move(entry.second.memory), std::move(users));
      }
    } catch (const std::bad_alloc&) {
      // The table releases the other slabs, and waits for their own device only.
      for (const access_desc& each : rights_.all().entries())
        detail::report_exceptions([&each] { each.device.synchronize(); });
    }
  }

  void create(std::size_t offset, std::size_t bytes, std::size_t /*chunk*/) override {
    device_allocation memory = allocate(bytes);
    const std::uintptr_t start =
        align_up(reinterpret_cast<std::uintptr_t>(memory.get()), traits.granularity);
    slabs_.add(offset, memory, start, bytes);
  }
  [[nodiscard]] bool reclaim(const out_of_memory& shortage, std::uint64_t seen) override {
    const detail::counted_scope now{reclaiming};
    return detail::reclaim_retired(shortage, seen);
  }
  /// A thread of the library releases the slab, because hipFree waits.
  [[nodiscard]] std::unique_ptr<pending_release> detach(std::size_t offset,
                                                        std::size_t /*bytes*/) override {
    auto one = std::make_unique<pending_release_of<device_allocation>>(
        [](device_allocation& slab) { detail::release_when_unused(std::move(slab)); });
    one->held = std::move(slabs_.take(offset).mapped().memory);
    return one;
  }

  void grant(device_ref device, access_right right) override { rights_.grant(device, right); }
  void set_access(const access_list& rights) override { rights_.set_access(rights); }
  [[nodiscard]] const access_map& rights() const override { return rights_.all(); }
  [[nodiscard]] region& chunk_region() override {
    throw unsupported{
        "the chunks of a pool on device " + std::to_string(device_.ordinal()) +
        " that has slabs of hipMalloc instead, because " + why_ +
        ": HIP reports no rights to those, and exports them by hipIpcGetMemHandle only"};
  }
  [[nodiscard]] const device_allocation& slab_at(std::size_t offset) const override {
    return slabs_.owner_of(offset);
  }
  [[nodiscard]] std::string explain() const override {
    return "slabs of hipMalloc, because " + why_ +
           ": free memory of different slabs serves no request together, and only whole slabs go "
           "back to the device";
  }
  [[nodiscard]] new_memory available() const override {
    const std::size_t free = device_.free_memory();
    return {is_aligned_ ? free : free - std::min(free, traits.granularity)};
  }
  [[nodiscard]] std::uintptr_t address_of(std::size_t offset) const noexcept override {
    return slabs_.address_of(offset);
  }
  [[nodiscard]] std::size_t offset_of(std::uintptr_t address) const noexcept override {
    return slabs_.offset_of(address, traits.address_bytes);
  }

 private:
  /// Allocates more if `bytes` bytes would not begin at a multiple of the granularity.
  [[nodiscard]] device_allocation allocate(std::size_t bytes) {
    // hipMalloc is no part of captures elsewhere in the program.
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

  device_ref device_;
  std::string why_;
  detail::malloc_rights rights_;
  // False once hipMalloc was not aligned to the granularity.
  std::atomic<bool> is_aligned_ = true;
  slab_table<device_allocation> slabs_;
};

}  // namespace hipvmm::mr::pool

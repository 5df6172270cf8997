// SPDX-License-Identifier: MIT
#include "pool/mem_pool_set.hpp"

#include <utility>

#include "base/failure.hpp"

namespace hipvmm::host_provider {

mem_pool_set::mem_pool_set(const pool_support& support, std::vector<device_memory*> memory)
    : support_{support}, memory_{std::move(memory)} {
  for (std::size_t id = 0; id < memory_.size(); ++id) {
    const hipMemPool_t made =
        add(pool_origin::device_default, static_cast<int>(id), 0, descriptor{});
    devices_.push_back({made, made});
  }
}

hipMemPool_t mem_pool_set::add(pool_origin origin, int device, std::uint64_t max_bytes,
                               descriptor file) {
  auto pool =
      std::make_shared<mem_pool>(support_, *this, *memory_[static_cast<std::size_t>(device)],
                                 origin, device, max_bytes, std::move(file));
  pool_list made{pool};
  const auto handle = to_handle<hipMemPool_t>(handles_.insert(std::move(pool)));
  const std::lock_guard lock{mutex_};
  alive_.splice(alive_.end(), made);
  return handle;
}

std::shared_ptr<mem_pool> mem_pool_set::find(hipMemPool_t handle) const {
  std::shared_ptr<mem_pool> found = handles_.find(from_handle(handle));
  require(found != nullptr);
  return found;
}

void mem_pool_set::destroy(hipMemPool_t handle) {
  require(find(handle)->origin() != pool_origin::device_default);
  const std::shared_ptr<mem_pool> leaving = handles_.extract(from_handle(handle));
  require(leaving != nullptr);
  {
    const std::lock_guard lock{mutex_};
    for (device_pools& each : devices_) {
      if (each.current == handle) each.current = each.standard;
    }
  }
  leaving->abandon();
  forget_done();
}

hipMemPool_t mem_pool_set::default_of(int device) const {
  const std::lock_guard lock{mutex_};
  return devices_[static_cast<std::size_t>(device)].standard;
}

hipMemPool_t mem_pool_set::current_of(int device) const {
  const std::lock_guard lock{mutex_};
  return devices_[static_cast<std::size_t>(device)].current;
}

void mem_pool_set::make_current(int device, hipMemPool_t handle) {
  const std::lock_guard lock{mutex_};
  // A pool destroyed meanwhile is refused: destroy() checks the current pools afterwards.
  require(handles_.find(from_handle(handle)) != nullptr);
  devices_[static_cast<std::size_t>(device)].current = handle;
}

void mem_pool_set::release_surplus() {
  if (idle_blocks_.load(std::memory_order_relaxed) == 0) return;
  for (const std::shared_ptr<mem_pool>& each : all()) each->release_surplus();
  forget_done();
}

void mem_pool_set::release_idle(int device) {
  for (const std::shared_ptr<mem_pool>& each : all()) {
    if (each->device() == device) each->release(0);
  }
}

void mem_pool_set::reset(int device) {
  const auto is_made_for = [device](const mem_pool& each) {
    return each.device() == device && each.origin() != pool_origin::device_default;
  };
  const auto leaving = handles_.extract_if(is_made_for);
  hipMemPool_t standard = nullptr;
  {
    const std::lock_guard lock{mutex_};
    device_pools& pools = devices_[static_cast<std::size_t>(device)];
    standard = pools.current = pools.standard;
  }
  for (const std::shared_ptr<mem_pool>& each : leaving) each->abandon();
  mem_pool& first = *find(standard);
  first.release(0);
  first.change_policy([](pool_policy& policy) { policy = {}; });
  first.change_usage([](pool_usage& usage) {
    usage.reserved_high = usage.reserved;
    usage.used_high = usage.used;
  });
  first.change_rights({~device_set{0}, only(device), only(device)});
  forget_done();
}

void mem_pool_set::forget_done() noexcept {
  pool_list done;  // dies after the lock
  const std::lock_guard lock{mutex_};
  for (auto at = alive_.begin(); at != alive_.end();) {
    const auto each = at++;
    if ((*each)->is_done()) done.splice(done.end(), alive_, each);
  }
}

mem_pool_set::totals mem_pool_set::count() const {
  totals sum{handles_.size(), 0, 0};
  for (const std::shared_ptr<mem_pool>& each : all()) {
    sum.blocks_held += each->blocks_held();
    if (each->file() >= 0) ++sum.files;
  }
  const std::lock_guard lock{mutex_};
  sum.pools -= devices_.size();
  return sum;
}

mem_pool_set::pool_list mem_pool_set::all() const {
  const std::lock_guard lock{mutex_};
  return alive_;
}

}  // namespace hipvmm::host_provider

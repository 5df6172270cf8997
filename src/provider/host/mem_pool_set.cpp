// SPDX-License-Identifier: MIT
#include "mem_pool_set.hpp"

#include <algorithm>
#include <utility>

#include "failure.hpp"
#include "runtime.hpp"

namespace hipvmm::host_provider {

mem_pool_set::mem_pool_set(runtime& machine) {
  for (int id = 0; id < machine.device_count(); ++id) {
    const hipMemPool_t made =
        add(std::make_shared<mem_pool>(machine, pool_origin::device_default, id, 0, descriptor{}));
    devices_.push_back({made, made});
  }
}

hipMemPool_t mem_pool_set::add(std::shared_ptr<mem_pool> pool) {
  const std::lock_guard lock{mutex_};
  alive_.push_back(pool);
  return to_handle<hipMemPool_t>(handles_.insert(std::move(pool)));
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
  // Unless destroyed in the meantime: destroying looks at the current ones afterwards.
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

void mem_pool_set::forget_done() {
  std::vector<std::shared_ptr<mem_pool>> done;  // dies after the lock
  const std::lock_guard lock{mutex_};
  const auto first = std::stable_partition(alive_.begin(), alive_.end(),
                                           [](const auto& each) { return !each->is_done(); });
  done.assign(std::make_move_iterator(first), std::make_move_iterator(alive_.end()));
  alive_.erase(first, alive_.end());
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

std::vector<std::shared_ptr<mem_pool>> mem_pool_set::all() const {
  const std::lock_guard lock{mutex_};
  return alive_;
}

}  // namespace hipvmm::host_provider

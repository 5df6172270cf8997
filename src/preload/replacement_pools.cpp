// SPDX-License-Identifier: MIT
#include "preload/replacement.hpp"

#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/ipc/ipc_error.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/chunk_cache.hpp>
#include "c/configured_budget.hpp"
#include "c/settings.hpp"
#include "core/capture_mode.hpp"
#include "core/check.hpp"

namespace hipvmm::preload {
namespace {

// In place of a value that HIPVMM_CONF does not have; "unlimited" is a value.
constexpr std::size_t no_threshold = std::numeric_limits<std::size_t>::max() - 1;

}  // namespace

void replacement::say(const char* what, const char* why) noexcept {
  std::fprintf(stderr, "hipvmm_preload: %s: %s\n", what, why);
}

replacement::~replacement() {
  for (device_pool& each : pools_) delete each.made.load();
}

replacement::served_device::served_device(replacement& of, device_ref device,
                                          const mr::pool_options& options, bool threshold)
    : memory{device, options},
      users{device},
      done{device},
      has_threshold{threshold},
      release{[this, &of] { of.release_when_quiet(*this); }} {
  for (const access_desc& each : options.access.entries())
    if (each.device != device && each.right != access_right::none) users.push_back(each.device);
}

void replacement::served_device::free(void* pointer, std::size_t bytes, bool waits) noexcept {
  if (waits) {
    try {
      const detail::relaxed_captures relaxed;
      for (const device_ref each : users) each.synchronize();
      memory.deallocate(done, pointer, in_pool(bytes));
      return;
    } catch (const std::exception&) {
      // A capture forbids the wait, or HIP has ended.
    }
  }
  memory.deallocate_sync(pointer, in_pool(bytes));
}

replacement::device_pool* replacement::find_entry(int device) const noexcept {
  if (device < 0 || static_cast<std::size_t>(device) >= most_devices) return nullptr;
  return &pools_[static_cast<std::size_t>(device)];
}

replacement::served_device* replacement::find_device(int device) const noexcept {
  const device_pool* const entry = find_entry(device);
  return entry == nullptr ? nullptr : entry->made.load(std::memory_order_acquire);
}

replacement::served_device* replacement::serve_device(device_ref device) {
  if (served_device* const found = find_device(device.ordinal())) return found;
  device_pool* const place = find_entry(device.ordinal());
  if (place == nullptr)
    throw std::out_of_range{"device " + std::to_string(device.ordinal()) +
                            " has no pool: only devices 0 to " + std::to_string(most_devices - 1) +
                            " have one"};
  device_pool& entry = *place;
  if (entry.refused != refusal::none) return nullptr;
  const std::lock_guard lock{making_};
  if (served_device* const found = entry.made) return found;
  if (entry.refused != refusal::none) return nullptr;
  try {
    mr::pool_options unconfigured;
    unconfigured.release_threshold = no_threshold;
    mr::pool_options options = c::pool_settings(device, nullptr, std::move(unconfigured));
    const bool has_threshold = options.release_threshold != no_threshold;
    if (!has_threshold) options.release_threshold = mr::pool_options{}.release_threshold;
    options.forgets_streams = true;  // by end_stream()
    if (options.access.entries().empty()) options.access = all_reachable_peers(device);
    c::join_configured_budget(device, c::configured_budget(device));
    entry.made = std::make_unique<served_device>(*this, device, options, has_threshold).release();
  } catch (const out_of_memory&) {
    throw;
  } catch (const std::exception& error) {
    // Another process may have locked the budget's file for a moment: the next request joins again.
    if (const auto* const passing = dynamic_cast<const ipc_error*>(&error);
        passing != nullptr && passing->reason() == ipc_failure::timeout)
      throw;
    if (c::names_a_budget()) {
      entry.refused = refusal::of_all;
      say("requests on this device are out of memory, because the budget of HIPVMM_CONF cannot "
          "be kept",
          error.what());
    } else {
      entry.refused = refusal::of_pool;
      say("nothing is replaced on this device", error.what());
    }
  }
  return entry.made;
}

void replacement::note_pool(device_ref device) noexcept {
  device_pool* const entry = find_entry(device.ordinal());
  if (is_child_ || entry == nullptr) return;
  using pools = mr::hip_async_resource;
  detail::report_exceptions([&] {
    // Held while HIP is asked, so that an older answer does not overwrite a newer one.
    const std::lock_guard lock{noting_};
    entry->own_pool = pools::current_pool(device) != pools::default_pool(device);
  });
}

bool replacement::has_own_pool(device_ref device) noexcept {
  const device_pool* const entry = find_entry(device.ordinal());
  if (entry == nullptr || !entry->own_pool) return false;
  note_pool(device);
  return entry->own_pool;
}

void replacement::reset_device(std::optional<device_ref> device) noexcept {
  if (is_child_) return;
  detail::report_exceptions([&] {
    const int ordinal = (device ? *device : device_ref::current()).ordinal();
    device_pool* const entry = find_entry(ordinal);
    if (entry == nullptr) return;
    entry->own_pool = false;
    if (entry->made == nullptr) return;
    std::vector<void*> gone;
    allocations_.for_each([&](const void* pointer, const allocation& each) {
      if (each.device == ordinal) gone.push_back(const_cast<void*>(pointer));
    });
    const std::lock_guard lock{making_};
    std::unique_ptr<served_device> ended;
    {
      const std::lock_guard no_visits{visiting_};
      ended.reset(entry->made.exchange(nullptr));
    }
    if (ended == nullptr) return;
    for (void* const each : gone) {
      const table::entry taken = allocations_.take(each);
      if (taken.empty()) continue;
      ended->memory.deallocate_sync(each, in_pool(taken.mapped().bytes));
      counts_.count_free(taken.mapped().bytes, false);
    }
    ended.reset();
    // A reset may end memory of the device that is kept, or is to be released later.
    drain_retired_memory();
    chunk_cache::shared().trim(device_ref{ordinal});
  });
}

}  // namespace hipvmm::preload

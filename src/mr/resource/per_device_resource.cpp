// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/per_device_resource.hpp>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include "core/owner_process.hpp"
#include "mr/memory_resource.hpp"
#include "mr/resource/set_resource.hpp"
#include "mr/stream_wait.hpp"
#include "runtime/device.hpp"

namespace hipvmm::mr {
namespace {

struct device_default {
  explicit device_default(device_ref device) : initial{device} {}

  const detail::owner_process process;
  hip_resource initial;
  std::atomic<memory_resource*> current{&initial};  // read without the lock
  std::mutex lock;
  void* adapted = nullptr;  // belongs to `current`
};

std::deque<device_default>& all_defaults() {
  // Never destroyed: static containers free memory at exit. The number of devices does not change.
  static std::deque<device_default>& all = *[] {
    auto made = std::make_unique<std::deque<device_default>>();
    for (const device_ref each : detail::all_devices()) made->emplace_back(each);
    return made.release();
  }();
  return all;
}

device_default& default_of(device_ref device) {
  require_device(device);
  return all_defaults()[static_cast<std::size_t>(device.ordinal())];
}

void replace(const memory_resource& ended) noexcept {
  for (device_default& each : all_defaults()) {
    if (each.current != &ended || each.process.is_of_parent()) continue;
    const std::lock_guard guard{each.lock};
    if (each.current != &ended) continue;
    each.current = &each.initial;
    each.adapted = nullptr;
  }
}

/// In a child of fork() a deallocation does nothing, and HIP is not called.
std::optional<device_ref> device_for(const memory_resource& used, device_ref device) {
  return used.is_of_parent() ? std::nullopt : std::optional{device};
}

}  // namespace

memory_resource* get_per_device_resource(device_ref device) { return default_of(device).current; }

memory_resource* set_per_device_resource(device_ref device, memory_resource* resource) {
  return detail::exchange_resource(device, {resource, nullptr}).resource;
}

memory_resource* get_current_device_resource() {
  return get_per_device_resource(device_ref::current());
}

memory_resource* set_current_device_resource(memory_resource* resource) {
  return set_per_device_resource(device_ref::current(), resource);
}

device_ref require_current_device(const char* user, memory_resource* resource) {
  const device_ref current = device_ref::current();
  const std::optional<device_ref> owner = require_resource(user, resource)->device();
  if (owner && *owner != current)
    throw std::invalid_argument{
        std::string{user} + ": the resource gives memory of device " +
        std::to_string(owner->ordinal()) + ", and device " + std::to_string(current.ordinal()) +
        " is current; make device " + std::to_string(owner->ordinal()) +
        " current for the construction (hipvmm::scoped_device, hipSetDevice), or pass a resource "
        "of device " +
        std::to_string(current.ordinal())};
  return current;
}

void deallocate_under(device_ref device, memory_resource* resource, stream_ref stream,
                      void* pointer, std::size_t bytes, std::size_t alignment) noexcept {
  const detail::tried_device scope{device_for(*resource, device)};
  resource->deallocate(stream, pointer, bytes, alignment);
}

void deallocate_sync_under(device_ref device, memory_resource* resource, void* pointer,
                           std::size_t bytes, std::size_t alignment) noexcept {
  const detail::tried_device scope{device_for(*resource, device)};
  resource->deallocate_sync(pointer, bytes, alignment);
}

}  // namespace hipvmm::mr

namespace hipvmm::detail {

set_resource resource_set_for(device_ref device) {
  mr::device_default& chosen = mr::default_of(device);
  const std::lock_guard guard{chosen.lock};
  return {chosen.current, chosen.adapted};
}

bool has_initial_resource(device_ref device) {
  const mr::device_default& chosen = mr::default_of(device);
  return chosen.current == &chosen.initial;
}

set_resource exchange_resource(device_ref device, set_resource next) {
  mr::device_default& chosen = mr::default_of(device);
  if (next.resource == nullptr) {
    next.resource = &chosen.initial;
  } else if (const auto other = next.resource->device(); other && *other != device) {
    throw std::invalid_argument{"set_per_device_resource: the resource gives memory of device " +
                                std::to_string(other->ordinal()) + ", not of device " +
                                std::to_string(device.ordinal()) +
                                "; set it for its own device, or make one for this device"};
  }
  at_end_of_resource = mr::replace;
  const std::lock_guard guard{chosen.lock};
  return {chosen.current.exchange(next.resource), std::exchange(chosen.adapted, next.adapted)};
}

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <hipvmm/hipvmm.h>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "core/owner_process.hpp"

namespace hipvmm::c {
namespace {

std::size_t alignment_of(std::size_t alignment) {
  return alignment == 0 ? mr::memory_resource::default_alignment : alignment;
}

/// Resources live while they are set. Never destroyed, because static objects may still allocate.
struct device_resources {
  std::mutex mutex;
  std::map<int, std::shared_ptr<resource_object>> set;
  const detail::owner_process process;

  static device_resources& shared() {
    static auto& resources = *new device_resources;
    return resources;
  }
};

void set_resource_of(device_ref device, std::shared_ptr<resource_object> resource) {
  device_resources& all = device_resources::shared();
  all.process.require_own();
  std::shared_ptr<resource_object> previous;  // ends after the unlock
  const std::lock_guard lock{all.mutex};
  require_device(device);
  auto& entry = all.set[device.ordinal()];
  mr::set_per_device_resource(device, resource == nullptr ? nullptr : resource->resource);
  previous = std::exchange(entry, std::move(resource));
}

}  // namespace

std::shared_ptr<resource_object> resource_of(device_ref device) {
  device_resources& all = device_resources::shared();
  all.process.require_own();
  const std::lock_guard lock{all.mutex};
  mr::memory_resource* const used = mr::get_per_device_resource(device);
  const auto found = all.set.find(device.ordinal());
  if (found != all.set.end() && found->second != nullptr && found->second->resource == used)
    return found->second;
  return std::make_shared<resource_object>("foreign", *used);
}

extern "C" {

hipvmm_status hipvmm_resource_destroy(hipvmm_resource resource) {
  return guarded(__func__, [&] { destroy<resource_object>(resource); });
}

hipvmm_status hipvmm_resource_kind(hipvmm_resource resource, const char** kind) {
  return with_resource(__func__, resource,
                       [&](const resource_object& object) { out(kind, "kind") = object.kind; });
}

hipvmm_status hipvmm_resource_device(hipvmm_resource resource, int* device) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    const auto owner = object.resource->device();
    out(device, "device") = owner ? owner->ordinal() : -1;
  });
}

hipvmm_status hipvmm_resource_is_host_accessible(hipvmm_resource resource, int* accessible) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    out(accessible, "accessible") = object.resource->is_host_accessible() ? 1 : 0;
  });
}

hipvmm_status hipvmm_resource_is_equal(hipvmm_resource resource, hipvmm_resource other,
                                       int* equal) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    const auto compared = find(other);
    out(equal, "equal") = object.resource->is_equal(*compared->resource) ? 1 : 0;
  });
}

hipvmm_status hipvmm_resource_upstream(hipvmm_resource resource, hipvmm_resource* upstream) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    create(upstream, "upstream", [&] {
      if (object.upstream == nullptr)
        throw invalid_handle{std::string{"an adaptor is expected, and a resource of the kind "} +
                             object.kind + " has no upstream"};
      return object.upstream;
    });
  });
}

hipvmm_status hipvmm_allocate(hipvmm_resource resource, size_t bytes, size_t alignment,
                              void* stream, void** pointer) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    out(pointer, "pointer") = nullptr;
    const default_stream_scope current{object.resource->device(), stream};
    *pointer = object.resource->allocate(stream_of(stream), bytes, alignment_of(alignment));
  });
}

hipvmm_status hipvmm_deallocate(hipvmm_resource resource, void* pointer, size_t bytes,
                                size_t alignment, void* stream) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    const stream_ref used = stream_of(stream);
    const auto owner = object.resource->device();
    if (owner && (used.is_default() || used.is_per_thread_default()))
      mr::deallocate_under(*owner, object.resource, used, pointer, bytes, alignment_of(alignment));
    else
      object.resource->deallocate(used, pointer, bytes, alignment_of(alignment));
  });
}

hipvmm_status hipvmm_allocate_sync(hipvmm_resource resource, size_t bytes, size_t alignment,
                                   void** pointer) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    out(pointer, "pointer") = nullptr;
    *pointer = object.resource->allocate_sync(bytes, alignment_of(alignment));
  });
}

hipvmm_status hipvmm_deallocate_sync(hipvmm_resource resource, void* pointer, size_t bytes,
                                     size_t alignment) {
  return with_resource(__func__, resource, [&](const resource_object& object) {
    object.resource->deallocate_sync(pointer, bytes, alignment_of(alignment));
  });
}

hipvmm_status hipvmm_get_device_resource(int device, hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [&] { return resource_of(device_ref{device}); });
}

hipvmm_status hipvmm_set_device_resource(int device, hipvmm_resource resource) {
  return guarded(__func__, [&] { set_resource_of(device_ref{device}, find(resource)); });
}

hipvmm_status hipvmm_reset_device_resource(int device) {
  return guarded(__func__, [&] { set_resource_of(device_ref{device}, nullptr); });
}

hipvmm_status hipvmm_get_current_device_resource(hipvmm_resource* resource) {
  return create(__func__, resource, "resource", [] { return resource_of(device_ref::current()); });
}

hipvmm_status hipvmm_set_current_device_resource(hipvmm_resource resource) {
  return guarded(__func__, [&] { set_resource_of(device_ref::current(), find(resource)); });
}

hipvmm_status hipvmm_reset_current_device_resource() {
  return guarded(__func__, [] { set_resource_of(device_ref::current(), nullptr); });
}

}  // extern "C"

}  // namespace hipvmm::c

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>

// The resource that each device's memory comes from where a container is told no other. At first it
// is a hip_resource, which lives as long as the process. What is set is not owned: it must outlive
// all that takes memory from it, and be replaced, by nullptr for instance, before it ends; a static
// one ends before containers that are older. All functions may be called from any thread.
// Throws: std::invalid_argument for a device that does not exist; unsupported without any.
namespace hipvmm::mr {

/// The resource of `device`; never nullptr. Takes no lock.
[[nodiscard]] memory_resource* get_per_device_resource(device_ref device);
/// Sets the resource of `device`, nullptr for the one from the start, and returns the one before.
/// Throws: std::invalid_argument also for a resource that gives memory of another device.
memory_resource* set_per_device_resource(device_ref device, memory_resource* resource);

/// As get_per_device_resource() for the calling thread's current device.
[[nodiscard]] memory_resource* get_current_device_resource();
/// As set_per_device_resource() for the calling thread's current device.
memory_resource* set_current_device_resource(memory_resource* resource);

/// The current device, for `user`, which shall take memory from `resource` and remember both.
/// Throws: std::invalid_argument, naming `user`, when `resource` is nullptr or gives memory of a
/// device that is not the current one.
device_ref require_current_device(const char* user, memory_resource* resource);
/// memory_resource::deallocate() with `device` current. What fails goes to the error handler, and
/// the memory goes back even where its device cannot be made current.
void deallocate_under(device_ref device, memory_resource* resource, stream_ref stream,
                      void* pointer, std::size_t bytes,
                      std::size_t alignment = memory_resource::default_alignment) noexcept;

}  // namespace hipvmm::mr

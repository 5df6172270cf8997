// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// The default resource of each device, for containers without another one. Thread-safe.
// - Initially it is a hip_resource, which lives as long as the process.
// - A resource that is set is not owned. It must outlive everything that allocates from it. If it
//   ends, the initial one is set. A static resource ends before containers that are older.
// Throws: std::invalid_argument for a device that does not exist; unsupported without any.
namespace hipvmm::mr {

/// Never nullptr. Takes no lock.
[[nodiscard]] memory_resource* get_per_device_resource(device_ref device);
/// Returns the previous resource; nullptr restores the initial one.
/// Throws: std::invalid_argument also for a resource that gives memory of another device.
memory_resource* set_per_device_resource(device_ref device, memory_resource* resource);

[[nodiscard]] memory_resource* get_current_device_resource();
memory_resource* set_current_device_resource(memory_resource* resource);

/// Returns the current device for `user`, which will allocate from `resource` and store both.
/// Throws: std::invalid_argument, naming `user`, for nullptr and for memory of another device.
device_ref require_current_device(const char* user, memory_resource* resource);
/// Deallocates with `device` current, or without if that fails. The error handler gets errors.
void deallocate_under(device_ref device, memory_resource* resource, stream_ref stream,
                      void* pointer, std::size_t bytes,
                      std::size_t alignment = memory_resource::default_alignment) noexcept;
void deallocate_sync_under(device_ref device, memory_resource* resource, void* pointer,
                           std::size_t bytes,
                           std::size_t alignment = memory_resource::default_alignment) noexcept;

}  // namespace hipvmm::mr

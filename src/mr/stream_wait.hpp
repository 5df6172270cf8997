// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include "vmm/device_work.hpp"

// How resources wait for streams and devices.
namespace hipvmm::detail {

/// Waits for `stream`. Where that fails, as for a stream that is gone, the error handler is told,
/// and all devices are waited for. Returns false, without a wait, when `stream` is being captured.
/// Throws: hip_error where the devices cannot be waited for either.
[[nodiscard]] bool wait_for_work(stream_ref stream);

[[nodiscard]] device_list all_devices();
/// The devices other than `owner` whose work may use what hipMalloc gave on `owner`: those that
/// reach it, and those that the library copied to or from it. Throws: hip_error.
[[nodiscard]] device_list other_users_of(device_ref owner);

/// Waits for all work that `devices` have been given. No capture of a stream forbids that or is
/// lost, unless a device has no memory left. Throws: hip_error.
void wait_for_devices(const device_list& devices);
/// The same before memory is deallocated without a stream. Makes no HIP call where `devices` is
/// empty. Throws: std::runtime_error, with the fate of the memory, which is to stay allocated.
void wait_for_users(const void* pointer, const device_list& devices);

/// allocate_sync() of a resource that allocates in streams only: in `own`, a stream that it keeps
/// for this, and waited for. Throws: what allocate() and the wait do; then nothing stays allocated.
[[nodiscard]] void* allocate_and_wait(mr::memory_resource& resource, stream_ref own,
                                      std::size_t bytes, std::size_t alignment);

}  // namespace hipvmm::detail

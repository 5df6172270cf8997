// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "region/device_work.hpp"

namespace hipvmm::detail {

/// Returns nothing, after a warning with `bytes`, if `stream` is gone. Throws: hip_error.
[[nodiscard]] std::optional<bool> captured_unless_gone(stream_ref stream, std::size_t bytes);

/// Frees a block of a HIP pool in `stream`. Returns false if HIP refuses, and another call may free
/// it. The error handler gets refusals, except if another stream is captured.
[[nodiscard]] bool free_unless_gone(stream_ref stream, void* pointer, std::size_t bytes) noexcept;

/// Throws: hip_error.
void wait_for_all_devices();

/// Waits for `stream`, in which a block of `bytes` is deallocated. If that fails, as for a
/// destroyed stream, reports it and waits for all devices. Returns false, without a wait, for a
/// captured stream. Throws: hip_error if the wait for the devices fails too.
[[nodiscard]] bool wait_for_work(stream_ref stream, std::size_t bytes);

[[nodiscard]] device_list all_devices();
/// The devices other than `owner` whose work may use hipMalloc memory of `owner`: those that can
/// access it, and those to or from which the library copied it. Throws: hip_error.
[[nodiscard]] device_list other_users_of(device_ref owner);

/// Waits for all work submitted to `devices`. A stream capture neither prevents the wait nor is
/// ended by it, unless a device has no memory left. Throws: hip_error.
void wait_for_devices(const device_list& devices);
/// wait_for_devices() before memory is deallocated without a stream; no HIP call if `devices` is
/// empty. Throws: std::runtime_error; the caller must keep the memory allocated, as the text says.
void wait_for_users(const void* pointer, const device_list& devices);

/// allocate_sync() for a resource that allocates in streams only: allocates in `own`, a stream that
/// the resource keeps for this, and waits. Throws: as both; then nothing stays allocated.
[[nodiscard]] void* allocate_and_wait(mr::memory_resource& resource, stream_ref own,
                                      std::size_t bytes, std::size_t alignment);

}  // namespace hipvmm::detail

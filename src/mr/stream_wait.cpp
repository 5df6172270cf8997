// SPDX-License-Identifier: MIT
#include "mr/stream_wait.hpp"

#include <hip/hip_runtime_api.h>

#include <optional>
#include <stdexcept>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "runtime/device.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {

bool wait_for_work(stream_ref stream) {
  std::optional<bool> waited;
  report_exceptions([&] {
    const bool captured = is_captured(stream);
    if (!captured) stream.synchronize();
    waited = !captured;
  });
  if (waited) return *waited;
  // The stream may be gone, or its work has failed.
  const relaxed_captures relaxed;
  for (int device = 0; device < device_count(); ++device) device_ref{device}.synchronize();
  return true;
}

device_list all_devices() {
  device_list all;
  const int count = device_count();
  all.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) all.emplace_back(ordinal);
  return all;
}

device_list other_users_of(device_ref owner) {
  device_list others;
  std::optional<device_ref> copied = next_copied_with(owner, -1);
  for (const device_ref other : all_devices()) {
    while (copied && *copied < other) copied = next_copied_with(owner, copied->ordinal());
    if (other != owner && ((copied && *copied == other) || other.can_access_peer(owner)))
      others.push_back(other);
  }
  return others;
}

// hipFree waits for its device on every release, and in a relaxed thread beside captures too. If it
// fails or has no memory to free, the other call fails as well, or waits.
void wait_for_devices(const device_list& devices) {
  for (const device_ref device : devices) {
    if (!has_context(device)) continue;
    try {
      if (wait_by_free(device)) continue;
    } catch (const hip_error&) {
    }
    const relaxed_captures relaxed;
    device.synchronize();
  }
}

void wait_for_users(const void* pointer, const device_list& devices) {
  try {
    wait_for_devices(devices);
  } catch (const hip_error& error) {
    // At exit the runtime may have ended, and with it all work.
    if (error.code() == hipErrorDeinitialized) return;
    throw std::runtime_error{
        "memory at " + address_text(pointer) +
        " stays allocated, because work may still use it: a device could not be "
        "waited for (" +
        error.what() + ")"};
  }
}

void* allocate_and_wait(mr::memory_resource& resource, stream_ref own, std::size_t bytes,
                        std::size_t alignment) {
  void* const pointer = resource.allocate(own, bytes, alignment);
  try {
    own.synchronize();
  } catch (...) {
    resource.deallocate(own, pointer, bytes, alignment);
    throw;
  }
  return pointer;
}

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#include "mr/stream_wait.hpp"

#include <hip/hip_runtime_api.h>

#include <optional>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "runtime/device.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/pool/hip_pool.hpp"
#include "runtime/stream.hpp"

namespace hipvmm::detail {

namespace {

void warn_gone(stream_ref stream, std::size_t bytes) noexcept {
  report_exceptions([&] {
    warn("deallocate",
         "a block of " + format_bytes(bytes) + " was to be deallocated in stream " +
             address_text(stream.get()) +
             ", which does not exist any more; all devices are waited for instead. Keep a stream "
             "until the last deallocation in it, or set_stream() another before it ends");
  });
}

}  // namespace

std::optional<bool> captured_unless_gone(stream_ref stream, std::size_t bytes) {
  try {
    return is_captured(stream);
  } catch (const hip_error& error) {
    if (!is_stream_missing(static_cast<hipError_t>(error.code()))) throw;
    warn_gone(stream, bytes);
    return std::nullopt;
  }
}

bool free_unless_gone(stream_ref stream, void* pointer, std::size_t bytes) noexcept {
  const hipError_t result = free_in(stream, pointer);
  const bool is_gone = is_stream_missing(result);
  if (is_gone || result == hipErrorStreamCaptureUnsupported)
    clear_last_error();
  else
    report(result, "hipFreeAsync");
  if (is_gone) warn_gone(stream, bytes);
  return !is_gone && is_released(result);
}

void wait_for_all_devices() {
  const relaxed_captures relaxed;
  for (int device = 0; device < device_count(); ++device) device_ref{device}.synchronize();
}

bool wait_for_work(stream_ref stream, std::size_t bytes) {
  std::optional<bool> captured;
  const bool is_known = report_exceptions([&] {
    captured = captured_unless_gone(stream, bytes);
    if (captured == false) stream.synchronize();
    return captured.has_value();
  });
  if (is_known) return !*captured;
  // The stream may be gone, or its work has failed.
  wait_for_all_devices();
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

// SPDX-License-Identifier: MIT
#include "mr/resource/host_memory.hpp"

#include <cstdint>
#include <new>
#include <stdexcept>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::detail {
namespace {

device_list find_devices_that_reach_host() {
  device_list found;
  for (const device_ref each : all_devices())
    if (each.supports_pageable_access()) found.push_back(each);
  return found;
}

/// A runtime that tells of no device has given none any work.
bool is_any_device() noexcept {
  try {
    return device_count() != 0;
  } catch (const hip_error&) {
    return false;
  }
}

}  // namespace

void require_possible(std::size_t bytes, const char* call) {
  if (bytes >= PTRDIFF_MAX) throw_out_of_host_memory(bytes, call);
}

void wait_before_free(stream_ref stream, const void* pointer, std::size_t bytes) {
  if (!is_any_device()) return;
  bool waited = false;
  try {
    waited = wait_for_work(stream, bytes);
  } catch (const hip_error& error) {
    throw std::runtime_error{
        "memory of the host at " + address_text(pointer) +
        " stays allocated, because work may still use it: neither its stream nor "
        "all devices could be waited for (" +
        error.what() + ")"};
  }
  if (!waited)
    throw std::logic_error{
        "memory of the host at " + address_text(pointer) +
        " is freed in a stream that is being captured and stays allocated, because the graph may "
        "use it: free it when the graph is gone"};
}

void wait_before_hip_free(const void* pointer) {
  if (device_count() > 1) wait_for_users(pointer, all_devices());
}

void wait_before_delete(const void* pointer) {
  if (!is_any_device()) return;
  // Constant. Never destroyed, because containers of static storage may use it at their end.
  static const device_list& reaching = *new device_list{find_devices_that_reach_host()};
  wait_for_users(pointer, reaching);
}

void delete_aligned(void* pointer, std::size_t alignment) noexcept {
  ::operator delete (pointer, std::align_val_t{alignment});
}

}  // namespace hipvmm::detail

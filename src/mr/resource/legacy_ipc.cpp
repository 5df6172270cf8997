// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/legacy_ipc.hpp>

#include <hip/hip_runtime_api.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/device_gate.hpp"
#include "runtime/pointer_memory.hpp"

namespace hipvmm::mr {
namespace {

static_assert(sizeof(legacy_ipc_block::handle) == sizeof(hipIpcMemHandle_t));

std::string named(std::uint64_t offset, std::uint64_t bytes) {
  return "a block of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset);
}

}  // namespace

legacy_ipc_block export_legacy_block(const device_allocation& allocation, std::size_t offset,
                                     std::size_t bytes) {
  if (bytes == 0 || offset > allocation.bytes() || bytes > allocation.bytes() - offset)
    throw std::invalid_argument{"export_legacy_block: " + named(offset, bytes) +
                                " of an allocation of " + std::to_string(allocation.bytes()) +
                                " bytes; name at least one byte, and none outside of it"};
  const scoped_device scope{allocation.device()};
  hipIpcMemHandle_t handle{};
  // The start: AMD takes no other address, or gives the rest of the allocation only.
  detail::check(hipIpcGetMemHandle(&handle, allocation.get()), "hipIpcGetMemHandle");
  legacy_ipc_block result{{}, offset, bytes};
  std::memcpy(result.handle.data(), &handle, sizeof(handle));
  return result;
}

imported_legacy_block::imported_legacy_block(const legacy_ipc_block& block, device_ref device)
    : allocation_{nullptr, deleter{device}} {
  require_device(device);
  hipIpcMemHandle_t handle{};
  std::memcpy(&handle, block.handle.data(), sizeof(handle));
  const scoped_device scope{device};
  void* opened = nullptr;
  const hipError_t result = hipIpcOpenMemHandle(&opened, handle, hipIpcMemLazyEnablePeerAccess);
  if (result == hipErrorInvalidContext) {
    detail::clear_last_error();
    throw std::invalid_argument{
        "imported_legacy_block: this process exported the block itself, and HIP opens the handles "
        "of others only; use the pointer that was exported"};
  }
  detail::check_resources(result, "hipIpcOpenMemHandle", device, block.bytes);
  allocation_.reset(opened);
  const void* base = nullptr;
  std::size_t present = 0;
  detail::check(detail::query_range(opened, base, present), "hipMemGetAddressRange");
  if (block.bytes == 0 || block.offset > present || block.bytes > present - block.offset)
    throw std::invalid_argument{"imported_legacy_block: " + named(block.offset, block.bytes) +
                                " of an allocation of " + std::to_string(present) +
                                " bytes; pass the whole result of export_legacy_block()"};
  offset_ = static_cast<std::size_t>(block.offset);
  bytes_ = static_cast<std::size_t>(block.bytes);
}

void imported_legacy_block::deleter::operator()(void* allocation) const noexcept {
  if (process.is_of_parent()) return;
  const hipError_t closed = [&] {
    const detail::device_wait counted{device.ordinal()};
    return hipIpcCloseMemHandle(allocation);
  }();
  detail::report(closed, "hipIpcCloseMemHandle");
}

void* imported_legacy_block::data() const noexcept {
  return empty() ? nullptr : static_cast<std::byte*>(allocation_.get()) + offset_;
}

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
// The part of growable_storage that is about its chunks and other devices.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/error.hpp>
#include "container/storage_memory.hpp"
#include "core/check.hpp"
#include "region/sleep/memory_tag.hpp"  // IWYU pragma: keep, for tag_state
#include "runtime/peer_copies.hpp"
#include "runtime/pointer_memory.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm {

bool growable_storage::is_asleep() const noexcept {
  return options_.chunks.tag && options_.chunks.tag->is_asleep();
}

void growable_storage::require_awake(const char* function) const {
  if (options_.chunks.tag) options_.chunks.tag->state()->require_awake(function);
  if (memory_) memory_->require_whole();
  if (scratch_) scratch_->require_whole();
}

std::vector<device_ref> growable_storage::owners() const {
  std::vector<device_ref> result = detail::devices_of(options_.chunks.placement, device_);
  // The devices that move_range() brought chunks to.
  if (memory_)
    for (const device_ref each : memory_->rights().other_owners())
      if (std::find(result.begin(), result.end(), each) == result.end()) result.push_back(each);
  return result;
}

// HIP puts chunks on the host down to one device, the first.
std::optional<device_ref> growable_storage::carrier_of_host_chunks() const {
  if (device_ == device_ref{0} || !memory_ || !memory_->is_address_stable()) return std::nullopt;
  for (const chunk_view& each : chunks())
    if (each.location.is_host()) {
      const std::optional<device_ref> named = detail::device_of_memory(each.address);
      return named == device_ ? std::nullopt : named;
    }
  return std::nullopt;
}

void growable_storage::require_moves_in(stream_ref stream) const {
  std::vector<device_ref> all = owners();
  if (const std::optional<device_ref> carrier = carrier_of_host_chunks()) {
    if (access(*carrier) != access_right::read_write)
      throw unsupported{
          "elements of a vector on device " + std::to_string(device_.ordinal()) +
          " with chunks on the host cannot move within it: HIP has device " +
          std::to_string(carrier->ordinal()) +
          " copy between such chunks, and that has no "
          "right to them; grant device " +
          std::to_string(carrier->ordinal()) +
          " read_write access to the vector first, or copy the elements to another vector"};
    all.push_back(*carrier);
  }
  if (!detail::copies_need_links()) return;
  for (const device_ref from : all) {
    for (const device_ref to : all) {
      const auto [result, call] = detail::require_links(stream, to, from);
      detail::check(result, call);
    }
  }
}

void growable_storage::require_copies_from(const void* source, stream_ref stream) const {
  if (device_count() < 2) return;
  const std::optional<device_ref> owner = detail::device_of_memory(source);
  if (!owner) return;
  for (const device_ref to : owners()) {
    if (*owner == to) continue;
    const auto [result, call] = detail::require_links(stream, *owner, to);
    detail::check(result, call);
    const capability known = capability_of(to);
    const detail::memory_strategy strategy{{{to, known}}};
    if (known.path() != memory_path::fallback && !strategy.peer_copies &&
        access(*owner) != access_right::read_write) {
      const std::string from = "device " + std::to_string(owner->ordinal());
      throw unsupported{"a copy from memory of " + from + " into a vector with memory of device " +
                        std::to_string(to.ordinal()) + ": the engine of " + from +
                        " makes it, and may not write there (" + strategy.peer_copies.reason() +
                        "); grant " + from + " read_write access to the vector first"};
    }
    // The stream may belong to either device, and AMD's runtime asks for no right.
    detail::note_peer_copy(*owner, to);
  }
}

std::vector<chunk_access> growable_storage::effective_access() const {
  if (!memory_) return {};
  const region& mapped = memory_->chunk_region();
  return mapped.effective_access(0, mapped.max_bytes());
}

std::vector<chunk_view> growable_storage::chunks() const {
  return memory_ ? memory_->chunk_region().chunks() : std::vector<chunk_view>{};
}

std::vector<exported_chunk> growable_storage::export_chunks(std::uint64_t since) {
  return memory_ ? memory_->chunk_region().export_chunks(since) : std::vector<exported_chunk>{};
}

std::vector<exported_fabric_chunk> growable_storage::export_fabric_chunks(std::uint64_t since) {
  return memory_ ? memory_->chunk_region().export_fabric_chunks(since)
                 : std::vector<exported_fabric_chunk>{};
}

access_right growable_storage::access(device_ref device) const noexcept {
  return memory_ ? memory_->rights().get(device) : access_right::none;
}

std::size_t growable_storage::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                         stream_ref stream) {
  if (!memory_) {
    if (offset == 0 && bytes == 0) return 0;
    throw std::out_of_range{"move_range: " + std::to_string(bytes) + " bytes at offset " +
                            std::to_string(offset) + " of a vector that has no memory yet"};
  }
  const void* const before = data();
  const std::size_t moved = memory_->chunk_region().move_range(offset, bytes, to, stream);
  count_move(before, held_bytes(), capacity_bytes());
  return moved;
}

}  // namespace hipvmm

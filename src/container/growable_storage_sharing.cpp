// SPDX-License-Identifier: MIT
// The part of growable_storage that is about its chunks and other devices.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/error.hpp>
#include "container/storage_memory.hpp"
#include "region/sleep/memory_tag.hpp"
#include "runtime/peer_copies.hpp"
#include "runtime/pointer_memory.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm {

bool growable_storage::is_asleep() const noexcept {
  return options_.chunks.tag && options_.chunks.tag->is_asleep();
}

void growable_storage::require_awake(const char* function) const {
  if (is_asleep()) options_.chunks.tag->state()->require_awake(function);
}

void growable_storage::require_copies_from(const void* source) const {
  if (device_count() < 2) return;
  const std::optional<device_ref> owner = detail::device_of_memory(source);
  if (!owner) return;
  std::vector<device_ref> targets = detail::devices_of(options_.chunks.placement, device_);
  // Those that move_range() brought chunks to.
  if (memory_)
    for (const device_ref each : memory_->rights().other_owners())
      if (std::find(targets.begin(), targets.end(), each) == targets.end()) targets.push_back(each);
  for (const device_ref to : targets) {
    if (*owner == to) continue;
    const capability known = capability_of(to);
    if (known.path() != memory_path::fallback && !known.has(trait::peer_copies) &&
        access(*owner) != access_right::read_write) {
      const std::string from = "device " + std::to_string(owner->ordinal());
      throw unsupported{"a copy from memory of " + from + " into a vector with memory of device " +
                        std::to_string(to.ordinal()) + ": the engine of " + from +
                        " makes it, and may not write there (" + known.reason(trait::peer_copies) +
                        "); grant " + from + " read_write access to the vector first"};
    }
    // The stream may belong to either device, and AMD's runtime asks for no right.
    detail::note_peer_copy(*owner, to);
  }
}

std::vector<chunk_access> growable_storage::effective_access() const {
  return memory_ ? memory_->effective_access() : std::vector<chunk_access>{};
}

std::vector<chunk_view> growable_storage::chunks() const {
  return memory_ ? memory_->chunks() : std::vector<chunk_view>{};
}

std::vector<exported_chunk> growable_storage::export_chunks(std::uint64_t since) {
  return memory_ ? memory_->export_chunks(since) : std::vector<exported_chunk>{};
}

std::vector<exported_fabric_chunk> growable_storage::export_fabric_chunks(std::uint64_t since) {
  return memory_ ? memory_->export_fabric_chunks(since) : std::vector<exported_fabric_chunk>{};
}

access_right growable_storage::access(device_ref device) const noexcept {
  return memory_ ? memory_->rights().get(device) : access_right::none;
}

std::size_t growable_storage::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                         stream_ref stream) {
  if (!memory_) return 0;
  const void* const before = data();
  const std::size_t moved = memory_->move_range(offset, bytes, to, stream);
  note_move(before, held_bytes(), capacity_bytes());
  return moved;
}

}  // namespace hipvmm

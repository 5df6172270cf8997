// SPDX-License-Identifier: MIT
#include "region/chunks/region_chunks.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "region/region_state.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {
namespace {

backing_map::iterator chunk_at(region_state& self, std::size_t offset) {
  const auto found = self.backings.find(offset);
  if (found == self.backings.end())
    throw std::invalid_argument{"no chunk of the region begins at offset " +
                                std::to_string(offset)};
  return found;
}

}  // namespace

detached_chunk detach_chunk(region& from, std::size_t offset) {
  region_state& self = implementation_of(from);
  self.drop_prepared();
  const auto found = chunk_at(self, offset);
  self.may_pin_memory = true;
  self.committed -= found->second.bytes();
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.backings.erase(found);
  return detached;
}

detached_chunk detach_old_mapping(region& from, std::size_t offset) {
  region_state& self = implementation_of(from);
  const auto found = self.old_mappings.find(offset);
  if (found == self.old_mappings.end())
    throw std::invalid_argument{"no chunk that moved is still mapped at offset " +
                                std::to_string(offset)};
  self.may_pin_memory = true;
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.old_mappings.erase(found);
  return detached;
}

void move_chunks(region& in, const std::vector<std::size_t>& from, std::size_t to) {
  implementation_of(in).awake("region::move_chunk").move_chunks(from, to);
}

refused_mappings take_refused(region& from, std::size_t offset, std::size_t bytes) noexcept {
  const auto& addresses = implementation_of(from).addresses;
  return {addresses,
          addresses->refused().take(static_cast<char*>(addresses->base()) + offset, bytes)};
}

physical_chunk reference_chunk(region& of, std::size_t offset) {
  return reference_to(chunk_at(implementation_of(of), offset)->second.chunk);
}

void copy_chunks(region& in, const std::vector<std::size_t>& offsets, stream_ref stream) {
  region_state& self = implementation_of(in);
  self.map_again();
  std::vector<backing_map::iterator> replaced;
  replaced.reserve(offsets.size());
  for (const std::size_t offset : offsets) replaced.push_back(chunk_at(self, offset));
  std::ranges::sort(replaced, [](const auto& a, const auto& b) { return a->first < b->first; });
  {
    // Now, because HIP may refuse the wait, as during captures: nothing is submitted yet.
    const relaxed_captures others;
    stream.synchronize();
  }
  self.drop_prepared();
  std::vector<physical_chunk> fresh = self.acquire_like(replaced, std::nullopt);
  self.copy_into(fresh, replaced, stream);
  self.replace_chunks(replaced, fresh);
}

void use_pinned_chunks(region& of) { implementation_of(of).takes_pinned = true; }

void return_pinned_memory(region& of) noexcept { implementation_of(of).return_pinned_memory(); }

region region_at(void* address, device_ref device, std::size_t max_bytes,
                 const region_options& options) {
  return {device, max_bytes, options, address};
}

region region_aside(device_ref device, std::size_t max_bytes, const region_options& options) {
  const std::size_t bytes = align_up(max_bytes, granularity_of(device).minimum);
  std::optional<region> made;
  if (attempt([&] { made.emplace(region_at(next_aside(bytes), device, bytes, options)); },
              [](const shortage& why) { return why.cause == exhausted::addresses; }))
    return std::move(*made);
  return {device, max_bytes, options};
}

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#include "ipc/imported_block_map.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "region/chunks/region_chunks.hpp"

namespace hipvmm::detail {
namespace {

std::string text_of(const exported_chunk& chunk) {
  return "the chunk of " + format_bytes(chunk.handle.bytes()) + " at offset " +
         std::to_string(chunk.offset);
}

/// Throws unless the chunks hold the block without a gap. The region checks their places.
void require_whole(const exported_range& block) {
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument{"imported_blocks::add: " + what +
                                ": pass the result of export_block(), with all of its chunks"};
  };
  if (block.chunks.empty() || block.bytes == 0) refuse("the block has no chunks, or no bytes");
  std::size_t end = block.chunks.front().offset;
  if (block.offset < end) refuse("the block begins before its first chunk");
  for (const exported_chunk& each : block.chunks) {
    const std::size_t bytes = each.handle.bytes();
    if (bytes == 0)
      refuse("the chunk at offset " + std::to_string(each.offset) + " was moved from");
    if (each.offset != end) refuse(text_of(each) + " does not follow the one before it");
    if (end + bytes < end) refuse(text_of(each) + " ends past 2^64");
    end += bytes;
    if (end <= block.offset) refuse(text_of(each) + " ends before the block");
    if (each.offset > block.offset && each.offset - block.offset >= block.bytes)
      refuse(text_of(each) + " begins behind the block");
  }
  if (end - block.offset < block.bytes) refuse("the block ends behind its last chunk");
}

}  // namespace

region reserve_mirror(device_ref device, std::size_t max_bytes, const access_list& rights,
                      const std::string& advice, const chunk_placement& placement) {
  region reserved{
      device,
      max_bytes,
      {.when_empty = empty_policy::keeps_addresses, .access = rights, .placement = placement}};
  if (reserved.max_bytes() < max_bytes)
    throw out_of_memory{exhausted::addresses, device.ordinal(), max_bytes, reserved.max_bytes(),
                        advice};
  return reserved;
}

imported_block_map::imported_block_map(device_ref device, std::size_t max_bytes,
                                       const access_list& rights)
    : memory_{reserve_mirror(device, max_bytes, rights,
                             "imported_blocks needs as many addresses as the exporter has: make "
                             "its pool with a smaller maximum_bytes")} {}

imported_block_map::chunk_map::iterator imported_block_map::first_behind(std::size_t offset) {
  const auto at = mapped_.upper_bound(offset);
  if (at == mapped_.begin()) return at;
  const auto before = std::prev(at);
  return before->first + before->second.bytes > offset ? before : at;
}

bool imported_block_map::is_mapped(const exported_chunk& chunk) const {
  const auto found = mapped_.find(chunk.offset);
  return found != mapped_.end() && found->second.serial == chunk.serial &&
         found->second.bytes == chunk.handle.bytes();
}

void imported_block_map::require_free_place(const exported_chunk& chunk) {
  const std::size_t end = chunk.offset + chunk.handle.bytes();
  for (auto at = first_behind(chunk.offset); at != mapped_.end() && at->first < end; ++at)
    if (at->second.uses != 0)
      throw std::invalid_argument{
          "imported_blocks::add: " + text_of(chunk) + " takes the place of one that " +
          std::to_string(at->second.uses) +
          " imported blocks use: the exporter must not deallocate a block before this process has "
          "ended its imported_block"};
}

std::size_t imported_block_map::unmap(chunk_map::iterator first, chunk_map::iterator last) {
  if (first == last) return 0;
  const auto& [offset, newest] = *std::prev(last);
  const std::size_t returned = memory_.decommit(first->first, offset + newest.bytes - first->first);
  mapped_.erase(first, last);
  return returned;
}

void imported_block_map::map(const std::vector<const exported_chunk*>& wanted) {
  std::map<std::size_t, physical_chunk> imported;
  chunk_map made;
  for (const exported_chunk* const each : wanted) {
    const physical_chunk& chunk =
        imported.emplace(each->offset, import_chunk(each->handle, memory_.device())).first->second;
    made.emplace(each->offset, mapped_chunk{chunk.bytes(), each->serial, 0});
  }
  for (const auto& [offset, one] : made) {
    const auto first = first_behind(offset);
    unmap(first, std::find_if(first, mapped_.end(), [end = offset + one.bytes](const auto& each) {
            return each.first >= end;
          }));
  }
  adopt_chunks(memory_, imported);
  mapped_.merge(made);
}

void imported_block_map::add(const exported_range& block) {
  process_.require_own();
  require_whole(block);
  const std::lock_guard lock{mutex_};
  std::vector<const exported_chunk*> missing;
  for (const exported_chunk& each : block.chunks) {
    if (is_mapped(each)) continue;
    require_free_place(each);
    missing.push_back(&each);
  }
  map(missing);
  for (const exported_chunk& each : block.chunks) ++mapped_.find(each.offset)->second.uses;
}

void imported_block_map::end_use(std::size_t offset, std::size_t bytes) noexcept {
  if (process_.is_of_parent()) return;
  const std::lock_guard lock{mutex_};
  for (auto at = first_behind(offset); at != mapped_.end() && at->first < offset + bytes; ++at)
    --at->second.uses;
}

std::size_t imported_block_map::release_unused() {
  process_.require_own();
  const std::lock_guard lock{mutex_};
  const auto is_used = [](const auto& each) { return each.second.uses != 0; };
  std::size_t released = 0;
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const auto first = std::find_if_not(at, mapped_.end(), is_used);
    at = std::find_if(first, mapped_.end(), is_used);
    released += unmap(first, at);
  }
  return released;
}

std::vector<chunk_view> imported_block_map::chunks() const {
  process_.require_own();
  const std::lock_guard lock{mutex_};
  return memory_.chunks();
}

}  // namespace hipvmm::detail

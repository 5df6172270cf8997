// SPDX-License-Identifier: MIT
#include "mr/pool/allocator/maintenance.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

#include <hipvmm/core/bytes.hpp>
#include "core/error.hpp"
#include "core/logger.hpp"
#include "vmm/idle/idle_memory.hpp"

namespace hipvmm::mr::pool {

void maintenance::poll_fences(const stream_timeline::state_list& states) {
  for (stream_state* const each : states) blocks_.streams.poll(*each);
  const state_lock lock{blocks_.mutex};
  stream_state& idle = blocks_.streams.idle();
  for (stream_state& each : blocks_.streams.states()) {
    if (!each.is_forgotten() || !each.has_passed(each.newest())) continue;
    const bool has_old_addresses = std::ranges::any_of(
        backing_.old_mappings, [&each](const auto& one) { return one.owner == &each; });
    if (has_old_addresses) continue;
    while (block* const one = each.free().first()) {
      blocks_.index.take_whole(*one);
      one->owner = &idle;
      one->epoch = 0;
      blocks_.index.make_free(*one);
    }
    each.vacate();
  }
}

bool maintenance::collect_reusable(const stream_timeline::state_list& states, bool is_forced) {
  const state_lock lock{blocks_.mutex};
  if (!blocks_.reuse.allow_opportunistic && !is_forced) return false;
  block_index::blocks passed;
  for (stream_state* const each : states) {
    if (each->is_idle() || !each->has_news()) continue;
    each->free().for_each([&](block& one) {
      if (each->has_passed(one.epoch)) passed.push_back(&one);
    });
    each->note_collected();
  }
  for (block* const one : passed) {
    blocks_.index.take_whole(*one);
    one->owner = &blocks_.streams.idle();
    one->epoch = 0;
  }
  // A merge removes only blocks that are free; those to come are busy.
  for (block* const one : passed) blocks_.index.make_free(*one);
  return !passed.empty();
}

void maintenance::record_forgotten(const stream_timeline::state_list& states) {
  for (stream_state* const each : states) {
    std::uint64_t ended = 0;
    {
      const state_lock lock{blocks_.mutex};
      if (!each->is_forgotten() || !each->lacks_fence()) continue;
      ended = each->advance_epoch();
    }
    // Behind the end of the epoch, to cover all of it.
    each->fences().push_back({blocks_.streams.source().fence_for_gone(), ended});
  }
}

void maintenance::wait_for_streams(const stream_timeline::state_list& states,
                                   std::vector<const stream_state*>* without_fence) {
  for (stream_state* const each : states) {
    std::uint64_t newest = 0;
    bool is_gone = false;
    {
      const state_lock lock{blocks_.mutex};
      newest = each->newest();
      if (each->has_passed(newest)) continue;
      is_gone = each->is_forgotten();
    }
    const auto known = blocks_.streams.fence_for(*each, newest, nullptr);
    bool waited = false;
    if (known)
      waited = turn_.wait_for(*known->point);
    else if (is_gone)
      turn_.without_lock([&] { waited = stream_timeline::wait_for(blocks_.streams.source()); });
    if (!waited) {
      if (without_fence != nullptr) without_fence->push_back(each);
      continue;
    }
    const state_lock lock{blocks_.mutex};
    each->note_passed(known ? known->epoch : newest);
  }
}

template <typename Predicate>
void maintenance::detach_old_addresses(Predicate is_over, unmap_records& going) {
  for (auto at = backing_.old_mappings.begin(); at != backing_.old_mappings.end();) {
    if (!blocks_.with_lock([&] { return is_over(*at); })) {
      ++at;
      continue;
    }
    unmap_records records;
    records.push_back({nullptr, at->addresses, 0});
    records.back().what = backing_.memory.detach_old_mapping(at->addresses->offset);
    blocks_.with_lock([&] { blocks_.index.take_leaving(*at->addresses); });
    going.splice(going.end(), records);
    at = backing_.old_mappings.erase(at);
  }
}

bool maintenance::unmap_old_addresses() {
  unmap_records going;
  going.swap(backing_.refused);
  std::exception_ptr failed;
  try {
    detach_old_addresses([](const auto& one) { return one.owner->has_passed(one.epoch); }, going);
  } catch (...) {
    failed = std::current_exception();
  }
  if (!going.empty()) static_cast<void>(release(going));
  if (failed) std::rethrow_exception(failed);
  return !going.empty();  // without those that HIP refused
}

std::size_t maintenance::release(unmap_records& going, chunk_gift* gift) {
  std::size_t leaving = 0;
  for (const auto& each : going) leaving += each.chunk_bytes;
  turn_.without_lock(
      [&going, gift] {
        for (auto& each : going) each.is_released = each.what->release(gift);
      },
      leaving);
  std::size_t returned = 0;
  for (auto at = going.begin(); at != going.end();) {
    const auto one = at++;
    if (!one->is_released) {
      backing_.refused.splice(backing_.refused.end(), going, one);
      continue;
    }
    const state_lock lock{blocks_.mutex};
    if (one->chunk_bytes != 0) {
      const auto released = blocks_.index.take_chunk(one->addresses->offset);
      returned += one->chunk_bytes;
      blocks_.report_event(memory_event_kind::trim, one->addresses->offset, one->chunk_bytes);
    }
    blocks_.index.make_unmapped(*one->addresses);
  }
  backing_.note_old_mappings();
  return returned;
}

void maintenance::detach(const idle_chunk& chunk, block_index::blocks& around,
                         unmap_records& going) {
  // Work at an old address of the chunk has passed, because it preceded work at the present one.
  detach_old_addresses([&chunk](const auto& one) { return one.order == chunk.order; }, going);
  unmap_records records;
  records.push_back({nullptr, around.front(), chunk.bytes});
  records.back().what = backing_.memory.detach(chunk.offset, chunk.bytes);
  blocks_.with_lock([&] { blocks_.index.merge(*around.front(), chunk.offset + chunk.bytes); });
  around.clear();
  going.splice(going.end(), records);
}

std::vector<block_index::blocks> maintenance::claim(const std::vector<idle_chunk>& chosen) {
  blocks_.index.prepare_for(2 * chosen.size());
  std::vector<block_index::blocks> around(chosen.size());
  try {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      blocks_.index.claim(*chosen[i].first, chosen[i].offset, chosen[i].offset + chosen[i].bytes,
                          around[i]);
  } catch (...) {
    for (const block_index::blocks& claimed : around) blocks_.index.unclaim(claimed);
    throw;
  }
  return around;
}

std::size_t maintenance::release_chunks(const std::vector<idle_chunk>& chosen,
                                        std::vector<block_index::blocks>& around,
                                        chunk_gift* gift) {
  unmap_records going;
  std::exception_ptr failed;
  try {
    for (std::size_t i = 0; i < chosen.size(); ++i) detach(chosen[i], around[i], going);
  } catch (...) {
    failed = std::current_exception();
    const state_lock lock{blocks_.mutex};
    for (const block_index::blocks& claimed : around) blocks_.index.unclaim(claimed);
  }
  const std::size_t returned = release(going, gift);
  if (returned != 0)
    detail::log<log_level::debug>([&] {
      return name_of_pool(blocks_.index.base()) + " gave " + format_bytes(returned) +
             " back to the device";
    });
  if (failed) std::rethrow_exception(failed);
  return returned;
}

maintenance::trimmed maintenance::trim(std::size_t bytes_to_keep, chunk_gift* gift) {
  const stream_timeline::state_list states = blocks_.streams.all();
  blocks_.empty_caches(states);
  // Blocks in transit may make more chunks idle.
  const bool are_in_transit = blocks_.blocks_in_transit.load() != 0;
  record_forgotten(states);
  blocks_.streams.record_missing_fences(states, nullptr);
  poll_fences(states);
  static_cast<void>(unmap_old_addresses());
  if (!backing_.memory.traits.returns_memory)
    return trim_with_addresses(bytes_to_keep, are_in_transit);
  // Other threads are releasing these bytes, which still count as held.
  const std::size_t leaving = turn_.leaving_bytes();
  if (blocks_.index.physical_bytes() - leaving <= bytes_to_keep) return {0, false};
  // Merges blocks of several streams, so that later turns visit fewer.
  static_cast<void>(collect_reusable(states, false));

  std::vector<idle_chunk> found;
  std::vector<idle_chunk> chosen;
  std::vector<block_index::blocks> around;
  bool more = false;
  {
    const state_lock lock{blocks_.mutex};
    const std::size_t held = blocks_.index.physical_bytes() - leaving;
    if (held <= bytes_to_keep) return {0, false};
    std::size_t excess = held - bytes_to_keep;
    const auto has_passed = [](const block& one) { return owner_of(one).has_passed(one.epoch); };
    const block_index& index = blocks_.index;
    index.for_each_stretch(index.least_chunk(), [&](block& first, const block& last) {
      for_each_run(first, last, has_passed, [&](block& begin, std::size_t end) {
        add_idle_chunks(index, begin, end, found);
      });
    });
    const bool in_use = is_free_memory_in_use();
    // A turn visits all idle chunks, so it releases more if there are many.
    const std::size_t most_chunks =
        std::max(backing_.memory.traits.prices.chunks_of_trim(), found.size() / 64);
    const auto is_asked = [gift](const idle_chunk& each) {
      return gift != nullptr && each.bytes == gift->asked.chunk_bytes;
    };
    // The old ones stay, because they are mostly neighbours in the order of creation.
    std::ranges::sort(found, std::greater<>{}, [&](const idle_chunk& each) {
      return std::pair{is_asked(each), each.order};
    });
    for (const idle_chunk& each : found) {
      if (each.bytes > excess) continue;
      if (chosen.size() == most_chunks) {
        more = true;
        break;
      }
      excess -= each.bytes;
      chosen.push_back(each);
    }
    more = more || ((in_use || are_in_transit || turn_.are_others_away()) && excess != 0);
    // Sorted by address: a cut then leaves the `first` of the next ones at or before them.
    std::ranges::sort(chosen, {}, &idle_chunk::offset);
    around = claim(chosen);
  }
  return {release_chunks(chosen, around, gift), more};
}

bool maintenance::is_free_memory_in_use() const {
  for (stream_state& each : blocks_.streams.states()) {
    if (each.has_passed(each.newest())) continue;
    const free_blocks& all = each.free();
    for (block* one = all.first(); one != nullptr; one = all.after(*one))
      if (!each.has_passed(one->epoch)) return true;
  }
  return false;
}

maintenance::trimmed maintenance::trim_with_addresses(std::size_t bytes_to_keep,
                                                      bool are_in_transit) {
  std::vector<idle_chunk> chosen;
  std::vector<block_index::blocks> around;
  {
    const state_lock lock{blocks_.mutex};
    if (blocks_.physical_bytes() <= bytes_to_keep) return {0, false};
    if (blocks_.index.used_blocks() != 0 || !backing_.refused.empty()) return {0, are_in_transit};
    if (!backing_.old_mappings.empty()) return {0, true};
    block& first = blocks_.index.front();
    const block* last = &first;
    for (block* at = &first; at != nullptr; at = at->next) {
      if (at->state == block_state::busy) return {0, true};
      if (at->state == block_state::free && !owner_of(*at).has_passed(at->epoch)) return {0, true};
      last = at;
    }
    for_each_run(
        first, *last, [](const block& one) { return one.state == block_state::free; },
        [&](block& begin, std::size_t end) { add_idle_chunks(blocks_.index, begin, end, chosen); });
    around = claim(chosen);
  }
  const std::size_t pinned = backing_.memory.pinned_bytes();
  std::unique_ptr<pending_release> old;
  const auto keep_all = [&] {
    const state_lock lock{blocks_.mutex};
    for (const block_index::blocks& claimed : around) blocks_.index.unclaim(claimed);
  };
  try {
    if (!detail::attempt([&] { old = backing_.memory.replace_addresses(); })) {
      // The process has too few addresses: the memory stays, and counts as held.
      keep_all();
      return {0, false};
    }
  } catch (...) {
    keep_all();
    throw;
  }
  for (const idle_chunk& each : chosen)
    blocks_.report_event(memory_event_kind::trim, each.offset, each.bytes);
  blocks_.with_lock([this] { blocks_.index.set_base(backing_.memory.base()); });
  std::size_t returned = pinned;
  for (const idle_chunk& each : chosen) returned += each.bytes;
  // The memory counts as held until the device has it.
  turn_.without_lock([&old] { static_cast<void>(old->release()); }, returned);
  // The addresses of other objects pin these bytes.
  returned -= std::min(returned, backing_.memory.pinned_bytes());
  const state_lock lock{blocks_.mutex};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto released = blocks_.index.take_chunk(chosen[i].offset);
    blocks_.index.merge(*around[i].front(), chosen[i].offset + chosen[i].bytes);
    blocks_.index.make_unmapped(*around[i].front());
  }
  return {returned, false};
}

}  // namespace hipvmm::mr::pool

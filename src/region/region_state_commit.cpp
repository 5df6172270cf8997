// SPDX-License-Identifier: MIT
// The part of region that commits, moves chunks, and gets more or other addresses.
#include <iterator>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/region.hpp>
#include "core/error.hpp"
#include "region/map_runs.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {
namespace {

/// While the object lives, and for good after keep(), the offsets of all backings and of the
/// placement count from `from`.
class shifted_offsets {
 public:
  shifted_offsets(region_state& owner, std::size_t from) noexcept : owner_{owner}, from_{from} {
    backing_map& all = owner_.backings;
    owner_.placement_start += from_;
    // From low to high offsets, so that no two backings have the same offset in between.
    for (auto at = all.begin(); from_ != 0 && at != all.end();) {
      auto node = all.extract(at++);
      node.key() -= from_;
      all.insert(at, std::move(node));
    }
  }
  ~shifted_offsets() {
    backing_map& all = owner_.backings;
    owner_.placement_start -= from_;
    for (auto at = all.end(); from_ != 0 && at != all.begin();) {
      auto node = all.extract(std::prev(at));
      node.key() += from_;
      at = all.insert(at, std::move(node));
    }
  }
  shifted_offsets& operator=(shifted_offsets&&) = delete;
  void keep() noexcept { from_ = 0; }

 private:
  region_state& owner_;
  std::size_t from_;
};

}  // namespace

backing_map region_state::make_missing(const address_range& range, std::size_t offset,
                                       std::size_t bytes, std::size_t largest_chunk) {
  const std::size_t wanted_from = offset;
  const std::size_t end = offset + bytes;
  backing_map additions;
  try {
    while (offset < end) {
      if (const auto overlap = backings_within(backings, offset, 1); !overlap.empty()) {
        offset = overlap.front().first + overlap.front().second.bytes();
        continue;
      }
      const auto next = backings.lower_bound(offset);
      const std::size_t gap = (next == backings.end() ? end : std::min(end, next->first)) - offset;
      const chunk_place place = place_at(offset, &additions);
      const std::size_t size =
          std::min({gap, range.longest_at(offset), place.bytes, largest_chunk});
      // Retired chunks may still be mapped there.
      if (shares_addresses()) finish_retired(range, offset, size);
      physical_chunk chunk =
          make_chunk(range, offset, size, place, gap,
                     size == gap && next == backings.end() && end >= this->end());
      const std::size_t backed = chunk.bytes();
      additions.try_emplace(offset).first->second.chunk = std::move(chunk);
      offset += backed;
    }
    // After all chunks are made: if the device is full, nothing was mapped that addresses could
    // pin.
    map_runs runs{*this, {range, range.bytes(), &additions}};
    for (auto& [at, one] : additions) runs.add(at, one.chunk, nullptr, one.map, &one.visible);
    runs.finish();
    return additions;
  } catch (...) {
    std::size_t undone = 0;
    for (const auto& [at, one] : additions) undone += one.chunk.bytes();
    release_all(additions, range, cache());
    // Any other exception goes on from here.
    const std::optional<out_of_memory> refused = refusal_of([] { throw; });
    shortage why = refused->why();
    if (why.cause == exhausted::budget) {
      // Others release memory for the whole commit, not for one chunk at each retry.
      why.requested += undone;
      why.available += undone;
    }
    throw out_of_memory{out_of_memory{why}, "the region holds " + format_bytes(committed) + " in " +
                                                std::to_string(backings.size()) +
                                                (backings.size() == 1 ? " chunk" : " chunks") +
                                                ", was asked to hold " + format_bytes(bytes) +
                                                " from offset " + std::to_string(wanted_from) +
                                                ", and stays as it was"};
  }
}

void region_state::commit(std::size_t offset, std::size_t bytes, std::size_t largest_chunk) {
  require_none_left_behind("commit", offset, bytes);
  prefetch.cancel_or_wait();
  if (addresses->is_lost() && !addresses->take_back())
    throw out_of_memory{exhausted::addresses, device.ordinal(), max_bytes(), 0,
                        "others hold the addresses at " + address_text(base()) +
                            ", which were freed while nothing was backed so that memory returned"};
  std::optional<adoption> adopted;
  if (has_backing_within(prefetch.ready(), offset, bytes)) adopted.emplace(*this);
  backing_map additions = make_ordered(offset, bytes, largest_chunk);
  if (additions.empty()) additions = make_missing(*addresses, offset, bytes, largest_chunk);
  merge(additions);
  if (adopted) adopted->keep();
  prefetch.allow();
  await_visible(offset, bytes);
}

void region_state::move_chunks(const std::vector<std::size_t>& from, std::size_t to) {
  strategy->second_address.require("region::move_chunk");
  if (from.empty()) return;
  drop_prepared();
  std::size_t end = to;
  backing_map additions;  // the new mappings, then those that are left behind
  for (const std::size_t each : from) {
    const auto moving = backings.find(each);
    if (moving == backings.end())
      throw std::invalid_argument{"region::move_chunk: no chunk begins at offset " +
                                  std::to_string(each)};
    backing& one = additions.try_emplace(end).first->second;
    one.own_rights = moving->second.own_rights;
    one.elsewhere = moving->second.chunk.get();
    end += moving->second.bytes();
  }
  const std::size_t bytes = end - to;
  require_within("move_chunk", to, bytes);
  require_free("move_chunk", to, bytes);
  if (shares_addresses()) finish_retired(*addresses, to, bytes);

  try {
    map_runs runs{*this, mapped_here(&additions)};
    auto next = from.begin();
    for (auto& [at, one] : additions)
      runs.add(at, backings.at(*next++).chunk, one.own_rights.get(), one.map, &one.visible);
    runs.finish();
  } catch (...) {
    release_all(additions, *addresses, cache());
    throw;
  }
  for (const std::size_t each : from) {
    auto left = additions.extract(additions.begin());
    auto moved = backings.extract(each);
    std::swap(left.mapped().map, moved.mapped().map);
    moved.mapped().visible = left.mapped().visible;
    moved.mapped().serial = next_serial();
    moved.key() = std::exchange(left.key(), each);
    backings.insert(std::move(moved));
    old_mappings.insert(std::move(left));
  }
  await_visible(to, bytes);
}

void region_state::end_move(std::size_t from) {
  const auto left = old_mappings.find(from);
  if (left == old_mappings.end())
    throw std::invalid_argument{"region::end_move: no chunk that moved is still mapped at offset " +
                                std::to_string(from)};
  left->second.map.unmap();
  old_mappings.erase(left);
  may_pin_memory = true;
}

bool region_state::extend_in_place(std::size_t max_bytes, std::size_t commit_bytes) {
  bool has_grown = false;
  const auto append = [&] {
    address_reservation behind{max_bytes - addresses->bytes(), 0, addresses->end()};
    if (behind.get() != addresses->end()) return;
    addresses->append(std::move(behind));
    has_grown = true;
  };
  if (!attempt(append, [](const shortage& why) { return why.cause == exhausted::addresses; }) ||
      !has_grown)
    return false;
  try {
    commit(0, commit_bytes, region::one_chunk);
  } catch (...) {
    addresses->drop_last();  // with memory that the failure left in them
    throw;
  }
  return true;
}

bool region_state::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const std::size_t present = addresses->bytes();
  require_none_left_behind("extend", 0, present);
  if (max_bytes == present) {
    commit(0, commit_bytes, region::one_chunk);
    return false;
  }

  prefetch.cancel_or_wait();
  // Not if HIP refuses copies across the border of two reservations: the program may submit such.
  if (strategy->extends_in_place && extend_in_place(max_bytes, commit_bytes)) return false;

  rebase(0, max_bytes, commit_bytes);
  return true;
}

void region_state::rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes) {
  prefetch.cancel_or_wait();
  require_none_left_behind("rebase", 0, addresses->bytes());
  // Nothing before the new base may stay, backed or not.
  if (has_backing_within(prefetch.ready(), 0, from)) drop_prepared();
  // The chunks are mapped twice for a moment, so that a failure leaves the old addresses whole.
  adoption adopted{*this};
  shifted_offsets shifted{*this, from};
  auto other = make_range(acquire_with_retry([&] { return reserve(std::max(max_bytes, end())); }));
  mapping_list moved{other};
  map_all(moved);
  backing_map additions = make_missing(*other, 0, commit_bytes, region::one_chunk);
  try {
    wait_for_users(users);
  } catch (...) {
    release_all(additions, *other, cache());
    throw;
  }

  move_to(moved);
  if (from != 0)
    for (auto& entry : backings) entry.second.serial = next_serial();
  merge(additions);
  shifted.keep();
  adopted.keep();
  prefetch.take_cancelled();
  prefetch.allow();
  await_visible(0, this->max_bytes());
}

std::size_t region_state::committed_from(std::size_t offset) const noexcept {
  std::size_t end = offset;
  for (const auto& [start, held] : backings_within(backings, offset, max_bytes() - offset)) {
    if (start > end) break;
    end = start + held.bytes();
  }
  return end - offset;
}

}  // namespace hipvmm::detail

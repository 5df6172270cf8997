// SPDX-License-Identifier: MIT
// What a region of mapped chunks does at each call, made of the steps in mapped_region.cpp.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "region/device_work.hpp"
#include "region/mapped_region.hpp"
#include "region/retirement.hpp"

namespace hipvmm::detail {

void mapped_region::commit(std::size_t offset, std::size_t bytes) {
  try {
    commit_or_leave(offset, bytes);
  } catch (...) {
    renew_if_empty();
    throw;
  }
}

void mapped_region::commit_or_leave(std::size_t offset, std::size_t bytes) {
  require_none_left_behind("commit", offset, bytes);
  preparation.cancel_or_wait();
  std::optional<adoption> adopted;
  if (is_prepared_within(offset, bytes)) adopted.emplace(*this);
  backing_map made = make_ordered(offset, bytes);
  if (made.empty()) made = make_missing_or_explain(*addresses, offset, bytes);
  merge(made);
  if (adopted) adopted->keep();
  may_prepare = true;
  await_visible(offset, bytes);
}

void mapped_region::move_chunk(std::size_t from, std::size_t to) {
  if (const auto* const lacking = first_without(trait::coherent_aliases);
      lacking != nullptr && !can_move_chunks())
    throw unsupported{"region::move_chunk: device " + std::to_string(lacking->first.ordinal()) +
                      " does not show the same bytes at two addresses of one chunk: " +
                      lacking->second.reason(trait::coherent_aliases)};
  drop_prepared();
  const auto moving = backings.find(from);
  if (moving == backings.end())
    throw std::invalid_argument{"region::move_chunk: no chunk begins at offset " +
                                std::to_string(from)};
  const std::size_t bytes = moving->second.bytes();
  require_within("move_chunk", to, bytes);
  require_none_left_behind("move_chunk", to, bytes);
  if (is_backed_within(to, bytes) || addresses->longest_at(to) < bytes)
    throw std::invalid_argument{"region::move_chunk: the " + format_bytes(bytes) + " at offset " +
                                std::to_string(to) +
                                " are partly backed already, or lie in two reservations"};
  if (addresses.use_count() > 1) finish_retired(*addresses, to, bytes);

  backing_map left;
  backing& old = left.try_emplace(from).first->second;
  old.own_rights = moving->second.own_rights;
  old.map = map_here(to, moving->second.chunk, old.own_rights.get());
  old.elsewhere = moving->second.chunk.get();
  std::swap(old.map, moving->second.map);
  moving->second.visible = visible_if_mapped_now();
  moving->second.serial = next_serial();
  auto node = backings.extract(moving);
  node.key() = to;
  backings.insert(std::move(node));
  left_behind.merge(left);
  await_visible(to, bytes);
}

void mapped_region::end_move(std::size_t from) {
  const auto left = left_behind.find(from);
  if (left == left_behind.end())
    throw std::invalid_argument{"region::end_move: no chunk that moved is still mapped at offset " +
                                std::to_string(from)};
  left->second.map.unmap();
  left_behind.erase(left);
  holds_memory = true;
}

bool mapped_region::extend_in_place(std::size_t max_bytes, std::size_t commit_bytes) {
  try {
    address_reservation behind{max_bytes - addresses->bytes(), 0, addresses->end()};
    if (behind.get() != addresses->end()) return false;
    addresses->append(std::move(behind));
  } catch (const out_of_memory& error) {
    if (error.resource() != exhausted::addresses) throw;
    return false;
  }
  try {
    commit_or_leave(0, commit_bytes);
  } catch (...) {
    // With what is left in them.
    addresses->drop_last();
    renew_if_empty();
    throw;
  }
  return true;
}

bool mapped_region::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  const std::size_t present = addresses->bytes();
  require_none_left_behind("extend", 0, present);
  if (max_bytes == present) {
    commit(0, commit_bytes);
    return false;
  }

  preparation.cancel_or_wait();
  // Copies of the program's own must not meet a border that they cannot cross.
  if (!needs(quirk::one_reservation) && extend_in_place(max_bytes, commit_bytes)) return false;

  rebase(0, max_bytes, commit_bytes);
  return true;
}

void mapped_region::rebase(std::size_t from, std::size_t max_bytes, std::size_t commit_bytes) {
  require_none_left_behind("rebase", 0, addresses->bytes());
  // The chunks are mapped twice for a moment, so that a failure leaves the old addresses whole.
  adoption adopted{*this};
  shifted_offsets shifted{*this, from};
  auto other = std::make_shared<address_range>(
      make_with_reclaim([&] { return reserve(std::max(max_bytes, end())); }));
  mapping_list moved{other};
  map_all(moved);
  backing_map made = make_missing_or_explain(*other, 0, commit_bytes);
  try {
    wait_for_users(users);
  } catch (...) {
    release_all(made, *other);
    throw;
  }

  move_to(moved);
  if (from != 0)
    for (auto& entry : backings) entry.second.serial = next_serial();
  merge(made);
  shifted.keep();
  adopted.keep();
  ordered.reset();
  may_prepare = true;
  await_visible(0, this->max_bytes());
}

mapped_region::shifted_offsets::shifted_offsets(mapped_region& owner, std::size_t from) noexcept
    : owner_{owner}, from_{from} {
  backing_map& all = owner_.backings;
  owner_.placement_start += from_;
  // Upwards, so that no two have one offset meanwhile.
  for (auto at = all.begin(); from_ != 0 && at != all.end();) {
    auto node = all.extract(at++);
    node.key() -= from_;
    all.insert(at, std::move(node));
  }
}

mapped_region::shifted_offsets::~shifted_offsets() {
  backing_map& all = owner_.backings;
  owner_.placement_start -= from_;
  for (auto at = all.end(); from_ != 0 && at != all.begin();) {
    auto node = all.extract(std::prev(at));
    node.key() += from_;
    at = all.insert(at, std::move(node));
  }
}

std::size_t mapped_region::committed_from(std::size_t offset) const noexcept {
  auto at = backings.upper_bound(offset);
  if (at == backings.begin()) return 0;
  --at;
  const std::size_t start = offset;
  while (at != backings.end() && at->first <= offset) {
    offset = std::max(offset, at->first + at->second.bytes());
    ++at;
  }
  return offset - start;
}

}  // namespace hipvmm::detail

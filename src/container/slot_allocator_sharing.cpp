// SPDX-License-Identifier: MIT
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include "container/slot_allocator.hpp"
#include "core/capture_mode.hpp"
#include "core/error.hpp"

namespace hipvmm::detail {

std::size_t slot_allocator::usable_rows(std::size_t which) const noexcept {
  const std::size_t all = claims_[which].count;
  std::size_t rows = std::min(
      all, geometry_.rows_for(which, slots_[which].length.load(std::memory_order_relaxed)));
  while (rows < all && rows_.is_private(geometry_.first_row(which) + rows)) ++rows;
  return rows;
}

void slot_allocator::drop_claims(std::size_t which, std::size_t kept) {
  const claimed_rows& one = claims_[which];
  kept = std::min(kept, has_shared_ ? usable_rows(which) : one.count);
  const relaxed_captures others;
  if (one.count > kept && !has_passed(which)) one.passed->synchronize();
  while (one.count > kept) unclaim_last(which);
  rows_.decommit_unclaimed();
  set_claims(which, one.count);
}

void slot_allocator::require_sharing() const {
  if (geometry_.packs())
    throw unsupported{
        "slot_arena::share_prefix: slots of slot_layout::packed have blocks in common with their "
        "neighbours, which cannot be those of another slot too: choose slot_layout::separate"};
  rows_.strategy().second_address.require("slot_arena::share_prefix", "; copy the prefix instead");
}

void slot_allocator::share_prefix(std::size_t from, const std::size_t* to, std::size_t count,
                                  std::size_t bytes, stream_ref stream) {
  require_awake("slot_arena::share_prefix");
  require_not_evicting("slot_arena::share_prefix");
  require_sharing();
  const slot& source = require_in_use("slot_arena::share_prefix", from, stream);
  const std::size_t present = source.length.load(std::memory_order_relaxed);
  if (bytes > present)
    throw std::invalid_argument{"slot_arena::share_prefix: slot " + std::to_string(from) + " has " +
                                std::to_string(present) + " bytes, not " + std::to_string(bytes) +
                                ": share no more"};
  for (std::size_t i = 0; i < count; ++i) {
    require_slot("slot_arena::share_prefix", to[i]);
    if (to[i] == from || slots_[to[i]].length.load(std::memory_order_relaxed) != 0 ||
        std::find(to, to + i, to[i]) != to + i)
      throw std::invalid_argument{"slot_arena::share_prefix: slot " + std::to_string(to[i]) +
                                  " has bytes already, or is named twice: release() it first"};
  }

  const pause stopped{*this};
  has_shared_ = true;
  growth growing{*this, count};
  for (std::size_t i = 0; i < count; ++i) growing.add(to[i], bytes);
  for (std::size_t i = 0; i < count; ++i) show_prefix(from, to[i], bytes, stream);
  const std::size_t at = align_down(bytes, geometry_.block);
  try {
    for (std::size_t i = 0; i < count && at != bytes; ++i)
      for (std::size_t plane = 0; plane < geometry_.planes; ++plane)
        copy_async(stream, static_cast<char*>(pointer(to[i], plane)) + at,
                   static_cast<const char*>(pointer(from, plane)) + at, bytes - at);
  } catch (...) {
    // Submitted copies must not outlive the mappings.
    stream.synchronize_no_throw();
    throw;
  }
  growing.keep();
  for (std::size_t i = 0; i < count; ++i) {
    slot& one = slots_[to[i]];
    one.length.store(bytes, std::memory_order_relaxed);
    set_claims(to[i], claims_[to[i]].count);
    one.in_use.store(true, std::memory_order_release);
  }
  request_prefetch();
}

void slot_allocator::show_prefix(std::size_t from, std::size_t to, std::size_t bytes,
                                 stream_ref stream) {
  drop_claims(to, 0);
  wait_in("slot_arena::share_prefix", to, stream);
  const std::size_t whole = bytes / geometry_.block;
  const std::size_t target = geometry_.first_row(to);
  for (std::size_t row = 0; row < whole; ++row) rows_.claim(target + row);
  try {
    rows_.share(geometry_.first_row(from), target, whole);
  } catch (...) {
    for (std::size_t row = 0; row < whole; ++row) rows_.unclaim(target + row);
    throw;
  }
  set_claims(to, whole);
  if (bytes % geometry_.block != 0) claim_next(to, asker::owner);
}

void slot_allocator::make_writable(std::size_t which, std::size_t offset, std::size_t bytes,
                                   stream_ref stream) {
  require_awake("slot_arena::make_writable");
  require_not_evicting("slot_arena::make_writable");
  const slot& one = require_in_use("slot_arena::make_writable", which, stream);
  const std::size_t present = one.length.load(std::memory_order_relaxed);
  if (offset > present || bytes > present - offset)
    throw std::out_of_range{"slot_arena::make_writable: " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) + " of slot " +
                            std::to_string(which) + ", which has " + std::to_string(present)};
  if (bytes == 0 || !has_shared_) return;
  const pause stopped{*this};
  std::vector<std::size_t> rows;
  const std::size_t first = geometry_.first_row(which);
  for (std::size_t row = offset / geometry_.block; row * geometry_.block < offset + bytes; ++row)
    if (!rows_.is_private(first + row)) rows.push_back(first + row);
  if (rows.empty()) return;
  const std::size_t copied = rows_.count_shared(rows) * geometry_.row_bytes();
  const auto find_more = [&] { return move_spare(asker::owner, spare::any) || wait_for_spare(); };
  growth copying{*this, 0};
  for (;;) {
    if (!has_room(copied)) {
      if (!find_more()) throw_over_budget(copied);
      continue;
    }
    const auto make_private = [&] {
      may_be_torn_ = true;
      rows_.make_private(rows, stream);
      may_be_torn_ = false;
    };
    if (attempt(make_private, [&](const shortage&) { return find_more(); })) break;
  }
  copying.keep();
  note_held();
}

}  // namespace hipvmm::detail

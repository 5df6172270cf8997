// SPDX-License-Identifier: MIT
#include "region/map_runs.hpp"

#include <hip/hip_runtime_api.h>

#include <algorithm>

#include "core/error.hpp"

namespace hipvmm::detail {

bool region_state::map_runs::joins(std::size_t offset, const physical_chunk& chunk,
                                   const access_map* own) const {
  const one& last = run_[count_ - 1];
  const bool has_same_rights = own == own_ || (own != nullptr && own_ != nullptr && *own == *own_);
  return count_ < most && has_same_rights && last.chunk->device() == chunk.device() &&
         last.chunk->location() == chunk.location() && last.offset + last.made->bytes() == offset &&
         there_.range.part_start(last.offset) == there_.range.part_start(offset) &&
         of_.strategy->rights.takes_runs;
}

void region_state::map_runs::add(std::size_t offset, const physical_chunk& chunk,
                                 const access_map* own, mapping& to, moment* visible) {
  if (count_ != 0 && !joins(offset, chunk, own)) finish();
  try {
    const device_ref owner = chunk.device();
    region_state::require_reach(own != nullptr ? *own : of_.rights, owner);
    to = there_.range.map(offset, chunk, of_.strategy->mapping_check, of_.strategy->pins(owner));
  } catch (...) {
    if (&there_.range == of_.addresses.get()) of_.may_pin_memory = true;
    throw;
  }
  own_ = own;
  run_[count_++] = {offset, &chunk, &to, visible};
}

std::size_t region_state::map_runs::bytes() const noexcept {
  if (count_ == 0) return 0;
  const one& last = run_[count_ - 1];
  return last.offset + last.made->bytes() - run_[0].offset;
}

void region_state::map_runs::set_rights() {
  const auto set = [this](std::size_t offset, std::size_t bytes) {
    of_.set_first_rights(there_, offset, bytes, run_[0].chunk->device(), own_);
  };
  // In map_all() the backings up to here are now mapped in `there_.range` too.
  if (stays_) there_.backed_end = std::max(there_.backed_end, run_[0].offset + bytes());
  if (count_ > 1 && !refusal_of(hipErrorInvalidValue, [&] { set(run_[0].offset, bytes()); }))
    return;
  for (std::size_t i = 0; i < count_; ++i) set(run_[i].offset, run_[i].made->bytes());
}

void region_state::map_runs::finish() {
  if (count_ == 0) return;
  try {
    set_rights();
    const moment visible = of_.visible_if_mapped_now();
    const bool registers = stays_ && of_.options.registrar;
    if (registers) wait_until(visible);
    for (std::size_t i = 0; i < count_; ++i) {
      if (registers) run_[i].made->register_with(of_.options.registrar, *run_[i].chunk);
      if (run_[i].visible != nullptr) *run_[i].visible = visible;
    }
  } catch (...) {
    if (&there_.range == of_.addresses.get()) of_.may_pin_memory = true;
    throw;
  }
  count_ = 0;
}

}  // namespace hipvmm::detail

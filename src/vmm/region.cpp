// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/region.hpp>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "vmm/region_state.hpp"
#include "vmm/retirement.hpp"

namespace hipvmm {

region::region(device_ref device, std::size_t max_bytes, region_options options) {
  require_device(device);
  if (max_bytes == 0)
    throw std::invalid_argument{"a region of 0 bytes: max_bytes must be at least 1"};
  state_ = std::make_unique<state>(device, max_bytes, options);
}

region::~region() = default;
region::region(region&& other) noexcept = default;
region& region::operator=(region&& other) noexcept = default;

region::state& region::live() const {
  if (!state_) throw std::invalid_argument{"the region is empty: it was moved from"};
  return *state_;
}

void region::commit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("commit", offset, bytes);
  self.preparation.settle();
  std::optional<state::adoption> prepared;
  if (self.is_prepared_within(offset, bytes)) prepared.emplace(self);
  backing_map made = self.make_ordered(offset, bytes);
  if (made.empty()) made = self.make_missing_or_explain(*self.addresses, offset, bytes);
  self.merge(made);
  if (prepared) prepared->keep();
  self.may_prepare = true;
}

std::size_t region::decommit(std::size_t offset, std::size_t bytes) {
  state& self = live();
  self.require_units("decommit", offset, bytes);
  self.drop_prepared();
  const std::size_t end = offset + bytes;
  auto& backings = self.backings;
  const auto first = backings.lower_bound(offset);
  auto last = first;
  while (last != backings.end() && last->first + last->second.bytes() <= end) ++last;

  for (auto at = first; at != last; ++at) {
    try {
      // One unmap for each mapping: ROCm before 7.0 keeps a reservation busy after an unmap that
      // spans several (ROCm/ROCR-Runtime#285).
      at->second.map.unmap();
    } catch (...) {
      for (auto undone = first; undone != at;) self.restore(undone++);
      throw;
    }
  }
  std::size_t returned = 0;
  for (auto at = first; at != last; at = backings.erase(at)) {
    returned += at->second.bytes();
    self.cache().recycle(std::move(at->second.chunk));
  }
  self.committed -= returned;
  return returned;
}

void region::grant(device_ref device, access_right right) {
  state& self = live();
  access_map next = self.rights;
  next.set(device, right);
  // What is ready gets the right together with the rest.
  const state::adoption prepared{self};
  const access_right before = self.rights.get(device);
  auto& backings = self.backings;
  const auto give = [&](const backing_map::value_type& entry, access_right given) {
    self.set_right(entry.first, entry.second.bytes(), {device, given});
  };
  for (auto at = backings.begin(); at != backings.end(); ++at) {
    try {
      give(*at, right);
    } catch (...) {
      for (auto undone = backings.begin(); undone != at; ++undone)
        detail::report_exceptions([&] { give(*undone, before); });
      throw;
    }
  }
  self.rights = std::move(next);
}

access_right region::access(device_ref device) const noexcept {
  return state_ ? state_->rights.get(device) : access_right::none;
}

const access_map& region::rights() const { return live().rights; }

std::size_t region::trim(std::size_t bytes, stream_ref stream, straddling_chunk straddling) {
  state& self = live();
  self.require_within("trim", bytes, 0);
  if (stream.is_capturing())
    throw std::invalid_argument{
        "region::trim: the stream is being captured into a graph, whose work no event tells of; "
        "name a stream that is not captured, or trim when the capture has ended"};
  const std::size_t end = align_up(bytes, self.granularity);
  const std::size_t before = self.committed;
  const bool replace = straddling == straddling_chunk::replace;
  self.drop_prepared();
  if (replace || (!stream.is_done() && !self.retire_behind(end, stream))) stream.synchronize();
  decommit(end, max_bytes() - end);
  if (replace) self.replace_straddler(end, stream);
  return before - self.committed;
}

void region::retire() noexcept {
  const std::unique_ptr<state> ended = std::move(state_);
  if (!ended || ended->backings.empty() || ended->retire_all()) return;
  for (const access_desc& entry : ended->rights.entries())
    detail::report_exceptions([&] { entry.device.synchronize(); });
}

bool region::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  state& self = live();
  const std::size_t present = self.addresses->bytes();
  const std::size_t wanted = align_up(max_bytes, self.granularity);
  const std::size_t least = align_up(commit_bytes, self.granularity);
  if (wanted < present || least > wanted)
    throw std::invalid_argument{"region::extend: cannot hold " + std::to_string(commit_bytes) +
                                " bytes in " + std::to_string(max_bytes) +
                                ", or go below the present " + std::to_string(present)};
  if (wanted == present) {
    commit(0, least);
    return false;
  }

  self.preparation.settle();
  try {
    address_reservation behind{wanted - present, 0, self.addresses->end()};
    if (behind.get() == self.addresses->end()) {
      self.addresses->append(std::move(behind));
      try {
        commit(0, least);
      } catch (...) {
        self.addresses->drop_last();
        throw;
      }
      return false;
    }
  } catch (const out_of_memory& error) {
    if (error.resource() != exhausted::addresses) throw;
  }

  // The chunks are mapped twice for a moment, so that a failure leaves the old addresses whole.
  state::adoption prepared{self};
  auto larger = std::make_shared<address_range>(
      detail::make_with_reclaim([wanted] { return address_reservation{wanted}; }));
  boost::container::small_vector<mapping, 8> moved;
  moved.reserve(self.backings.size());
  for (const auto& [offset, held] : self.backings)
    moved.push_back(self.map_with_rights(*larger, offset, held.chunk));
  backing_map made = self.make_missing_or_explain(*larger, 0, least);
  for (const access_desc& entry : self.rights.entries()) entry.device.synchronize();

  auto next = moved.begin();
  for (auto& [offset, held] : self.backings) std::swap(held.map, *next++);
  std::swap(self.addresses, larger);
  self.merge(made);
  prepared.keep();
  self.ordered.reset();
  self.may_prepare = true;
  return true;
}

void* region::base() const noexcept { return state_ ? state_->addresses->base() : nullptr; }

std::size_t region::max_bytes() const noexcept { return state_ ? state_->addresses->bytes() : 0; }

std::size_t region::committed_bytes() const noexcept { return state_ ? state_->committed : 0; }

std::size_t region::committed_from(std::size_t offset) const noexcept {
  if (!state_) return 0;
  const auto& backings = state_->backings;
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

std::size_t region::chunk_count() const noexcept { return state_ ? state_->backings.size() : 0; }

std::size_t region::granularity() const noexcept { return state_ ? state_->granularity : 0; }

device_ref region::device() const { return live().device; }

}  // namespace hipvmm

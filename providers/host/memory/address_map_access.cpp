// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "memory/address_map.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {
namespace {

struct rights {
  device_set readers;
  device_set writers;
  int host;  // granted to the host itself

  // The widest right of any device.
  [[nodiscard]] int widest() const noexcept {
    if (writers != 0) return PROT_READ | PROT_WRITE;
    return host | (readers != 0 ? PROT_READ : PROT_NONE);
  }
  [[nodiscard]] int protection(host_touch touch) const noexcept {
    return touch == host_touch::as_devices ? widest() : host;
  }
};

struct rights_change {
  tracked_range* target;
  rights before;
  rights after;

  [[nodiscard]] bool must_wait() const noexcept {
    const int lost = before.widest() & ~after.widest();
    if ((lost & PROT_READ) != 0 && target->read_pins != 0) return true;
    return (lost & PROT_WRITE) != 0 && target->write_pins != 0;
  }
};

// One system call for each run of neighbours that get the same protection.
bool protect(const std::vector<rights_change>& changes, host_touch touch,
             rights rights_change::*wanted) {
  for (std::size_t first = 0; first < changes.size();) {
    const int protection = (changes[first].*wanted).protection(touch);
    std::size_t last = first;
    bool differs = false;
    std::size_t bytes = 0;
    for (; last < changes.size() && (changes[last].*wanted).protection(touch) == protection;
         ++last) {
      differs = differs ||
                changes[last].before.protection(touch) != changes[last].after.protection(touch);
      bytes += changes[last].target->bytes;
    }
    void* const start = pointer_to(changes[first].target->start);
    if (differs && mprotect(start, bytes, protection) != 0) return false;
    first = last;
  }
  return true;
}

bool permits(const tracked_range& where, const access_request& request) noexcept {
  const bool needs_peer = where.kind == memory_kind::device_allocation ||
                          where.kind == memory_kind::imported_allocation;
  if (needs_peer && (request.owners & only(where.device)) == 0) return false;
  device_set allowed = request.needed == right::read ? where.readers : where.writers;
  if (where.tenant) allowed &= where.tenant->devices_with(request.needed);
  return (allowed & only(request.device)) != 0;
}

std::size_t bytes_held(const tracked_range& where) {
  return where.tenant ? where.tenant->bytes_held() : where.bytes;
}

// openxla/xla#46576: copies do not reach the memory any more, until the owner is granted again.
void note_grant(tracked_range& target, const access_change& change, device_set readers_before) {
  const device_set owner = only(target.device);
  if ((change.named & owner) != 0) {
    target.unseen_until = {};
  } else if ((change.readers & ~owner) != 0 && (readers_before & owner) != 0) {
    target.unseen_until = std::chrono::steady_clock::time_point::max();
  }
}

}  // namespace

std::size_t address_map::set_access(address start, std::size_t bytes, const access_change& change,
                                    const std::vector<device_set>& links) {
  guard lock{mutex_};
  const std::vector<tracked_range*> whole =
      mappings_in(lock, start, bytes,
                  rules_.access == access_range::any_end ? range_end::inside : range_end::exact);
  require(rules_.access != access_range::sums_from_first || is_sum_from_first(start, bytes));
  granted_ += whole.size();
  for (const tracked_range* each : whole) {
    const bool on_host = each->memory->is_on_host();
    const device_set reach = links[static_cast<std::size_t>(each->device)] | only(each->device);
    require(on_host || (change.readers & ~reach) == 0, rules_.unlinked_access);
    require(!change.host || on_host || rules_.host_chunks == host_place::any_memory,
            hipErrorNotSupported);
  }
  std::vector<device_set> readers_before;
  for (const tracked_range* each : whole) readers_before.push_back(each->readers);
  change_access(lock, whole, change);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (rules_.peer_after_owner == late_grant::corrupts_mapping && !whole[i]->memory->is_on_host())
      note_grant(*whole[i], change, readers_before[i]);
  }
  end_change(whole);
  return whole.back()->start + whole.back()->bytes - start;
}

// Revoked rights wait for the users of the ranges, which are still changing afterwards.
void address_map::change_access(guard& lock, const std::vector<tracked_range*>& whole,
                                const access_change& change) {
  std::vector<rights_change> changes;
  changes.reserve(whole.size());
  for (tracked_range* each : whole) {
    const rights before{each->readers, each->writers, each->host_rights};
    changes.push_back(
        {each,
         before,
         {(before.readers & ~change.named) | change.readers,
          (before.writers & ~change.named) | change.writers, change.host.value_or(before.host)}});
  }
  // Rights are revoked before the protection narrows and granted after it has widened, so that an
  // admitted copy never meets a page that it may not use.
  for (const rights_change& each : changes) {
    each.target->changing = true;
    each.target->readers &= each.after.readers;
    each.target->writers &= each.after.writers;
  }
  changed_.wait(lock, [&changes] {
    return std::none_of(changes.begin(), changes.end(),
                        [](const rights_change& each) { return each.must_wait(); });
  });
  lock.unlock();
  const bool done = protect(changes, touch_, &rights_change::after);
  const int error = done ? 0 : errno;
  if (!done) protect(changes, touch_, &rights_change::before);
  lock.lock();
  for (const rights_change& each : changes) {
    const rights& now = done ? each.after : each.before;
    each.target->readers = now.readers;
    each.target->writers = now.writers;
    each.target->host_rights = now.host;
  }
  if (!done) end_change(whole);
  require(done, error_of_errno(error));
}

void address_map::open_to(address at, device_set users) {
  guard lock{mutex_};
  const tracked_range* const first = range_at(at);
  if (first == nullptr || first->kind != memory_kind::mapping || first->opened) return;
  address end = first->start;
  for (const tracked_range* next = first; next != nullptr && next->kind == memory_kind::mapping &&
                                          is_within_one(first->start, next->start);
       next = range_at(end))
    end = next->start + next->bytes;
  const std::vector<tracked_range*> whole =
      mappings_in(lock, first->start, end - first->start, range_end::exact);
  change_access(lock, whole, {users, users, users, {}});
  whole.front()->opened = true;
  end_change(whole);
}

memory_class address_map::classify(address at) const {
  const guard lock{mutex_};
  if (const tracked_range* found = range_at(at)) {
    return is_pinned(*found) || found->kind == memory_kind::managed_allocation
               ? memory_class::pinned
               : memory_class::device;
  }
  return knows_any(at, at + 1) ? memory_class::device : memory_class::pageable;
}

std::optional<tracked_range> address_map::find(address at) const {
  const guard lock{mutex_};
  const tracked_range* const found = range_at(at);
  if (found == nullptr) return std::nullopt;
  tracked_range copy = *found;
  copy.bytes = bytes_held(*found);
  if (at - copy.start >= copy.bytes) return std::nullopt;
  return copy;
}

bool address_map::allows(address start, std::size_t bytes, const access_request& request) const {
  if (start + bytes < start) return false;
  const address end = start + bytes;
  const guard lock{mutex_};
  if (range_at(start) == nullptr) return !knows_any(start, end);
  for (address at = start; at < end;) {
    const tracked_range* const found = range_at(at);
    if (found == nullptr || !permits(*found, request)) return false;
    const address usable_end = found->start + bytes_held(*found);
    // Only mappings continue in their neighbours.
    if (found->kind != memory_kind::mapping) return at == start && end <= usable_end;
    if (rules_.crossing == border_crossing::refused && !is_within_one(start, at)) return false;
    at = usable_end;
  }
  return true;
}

bool address_map::is_within_one(address first, address second) const {
  const auto next = reservations_.upper_bound(first);
  return next == reservations_.upper_bound(second);
}

bool address_map::knows_any(address start, address end) const {
  const auto overlaps = [start, end](const auto& index, const auto& bytes_of) {
    const auto next = index.lower_bound(end);
    if (next == index.begin()) return false;
    const auto& last = *std::prev(next);
    return last.first + bytes_of(last.second) > start;
  };
  return overlaps(ranges_, [](const auto& each) { return each->extent_bytes; }) ||
         overlaps(reservations_, [](const auto& each) { return each.bytes; });
}

address_map::pin address_map::hold(address start, std::size_t bytes, const access_request& request,
                                   bool from_end) {
  const guard lock{mutex_};
  tracked_range* const found = range_at(from_end ? start + bytes - 1 : start);
  require(found != nullptr && permits(*found, request), hipErrorIllegalAddress);
  const address first = std::max(start, found->start);
  const std::size_t usable = found->tenant ? found->tenant->bytes_reached() : found->bytes;
  const address last = std::min(start + bytes, found->start + usable);
  require(from_end ? last == start + bytes : first == start && last > first,
          hipErrorIllegalAddress);
  ++(request.needed == right::read ? found->read_pins : found->write_pins);
  constexpr std::chrono::steady_clock::time_point at_once{};
  const bool seen =
      found->unseen_until == at_once || found->unseen_until <= std::chrono::steady_clock::now();
  // The view that mapped it first is coherent, and so is the last one left.
  const bool stale = found->stale != nullptr && fault_plan::get().incoherent_aliases() &&
                     is_mapped(*found->memory, found->stale.get());
  return {*this, found, request.needed, last - first, seen, stale};
}

address_map::pin::~pin() {
  if (range_ == nullptr) return;
  const std::lock_guard lock{map_->mutex_};
  unsigned& pins = needed_ == right::read ? range_->read_pins : range_->write_pins;
  if (--pins == 0 && range_->changing) map_->changed_.notify_all();
}

}  // namespace hipvmm::host_provider

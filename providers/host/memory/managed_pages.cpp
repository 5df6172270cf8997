// SPDX-License-Identifier: MIT
#include "memory/managed_pages.hpp"

#include <bit>
#include <iterator>
#include <new>

namespace hipvmm::host_provider {
namespace {

address page_of(address at) noexcept { return at - at % managed_pages::page_bytes; }
address page_after(address end) noexcept { return page_of(end + managed_pages::page_bytes - 1); }

// hipInvalidDeviceId if `device` cannot use the page without a move.
int mapped_place(const page_state& page, int device, device_set reach) noexcept {
  const device_set within = page.residence.devices & reach;
  if (page.preferred == hipCpuDeviceId && page.residence.host) return hipCpuDeviceId;
  if (page.preferred >= 0 && (within & only(page.preferred)) != 0) return page.preferred;
  if (!page.accessed_by.contains(device)) return hipInvalidDeviceId;
  if (page.residence.host) return hipCpuDeviceId;
  return within == 0 ? hipInvalidDeviceId : std::countr_zero(within);
}

}  // namespace

bool place_set::contains(int place) const noexcept {
  return place < 0 ? place == hipCpuDeviceId && host : (devices & only(place)) != 0;
}

void place_set::insert(int place) noexcept {
  if (place == hipCpuDeviceId) {
    host = true;
  } else {
    devices |= only(place);
  }
}

void place_set::erase(int place) noexcept {
  if (place == hipCpuDeviceId) {
    host = false;
  } else {
    devices &= ~only(place);
  }
}

void page_state::move_to(int place) noexcept {
  if (!read_mostly) residence = {};
  residence.insert(place);
}

void page_state::drop_copies() noexcept {
  int kept = preferred;
  if (!residence.contains(kept)) {
    kept = residence.host ? hipCpuDeviceId : std::countr_zero(residence.devices);
  }
  residence = place_set::just(kept);
}

void page_state::touch(int device, device_set reach, right used) noexcept {
  int place = device;
  if (!read_mostly && !residence.contains(device)) {
    const int mapped = mapped_place(*this, device, reach);
    if (mapped != hipInvalidDeviceId) place = mapped;
  }
  if (read_mostly && used == right::read) {
    residence.insert(place);
  } else {
    residence = place_set::just(place);
  }
}

managed_pages::managed_pages(address start, std::size_t bytes)
    : end_{page_after(start + bytes)}, runs_{{page_of(start), page_state{}}} {}

void managed_pages::change(address start, std::size_t bytes,
                           const std::function<void(page_state&)>& how) {
  const address end = page_after(start + bytes);
  const std::lock_guard lock{mutex_};
  const run_map::iterator first = split(page_of(start));
  const run_map::iterator last = split(end);
  for (auto run = first; run != last; ++run) how(run->second);
  merge(first, end);
}

void managed_pages::visit(address start, std::size_t bytes,
                          const std::function<void(const page_state&)>& look) const {
  const std::lock_guard lock{mutex_};
  for (auto run = std::prev(runs_.upper_bound(start));
       run != runs_.end() && run->first < start + bytes; ++run) {
    look(run->second);
  }
}

managed_pages::run_map::iterator managed_pages::split(address at) {
  if (at == end_) return runs_.end();
  const auto after = runs_.upper_bound(at);
  const auto around = std::prev(after);
  return around->first == at ? around : runs_.emplace_hint(after, at, around->second);
}

void managed_pages::merge(run_map::iterator first, address end) {
  auto run = first == runs_.begin() ? first : std::prev(first);
  for (auto next = std::next(run); next != runs_.end() && next->first <= end;
       next = std::next(run)) {
    if (next->second == run->second) {
      runs_.erase(next);
    } else {
      run = next;
    }
  }
}

hipError_t perform(const prefetch_request& work) noexcept {
  try {
    work.pages->change(work.start, work.bytes,
                       [&work](page_state& page) { page.move_to(work.place); });
  } catch (const std::bad_alloc&) {
    return hipErrorOutOfMemory;
  }
  return hipSuccess;
}

}  // namespace hipvmm::host_provider

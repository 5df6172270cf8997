// SPDX-License-Identifier: MIT
#include "vmm/idle/memory_changes.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/observers/memory_events.hpp"

namespace hipvmm::detail {

memory_event* memory_change_ring::open_chunks(int device, std::uint64_t thread) noexcept {
  memory_event& last = events_[count_ % capacity];
  const bool is_open = count_ != 0 && last.source == memory_event_source::mapping &&
                       last.device == device && last.thread == thread;
  return is_open ? &last : nullptr;
}

void memory_change_ring::add_chunks(int device, std::int64_t bytes) noexcept {
  const auto thread = static_cast<std::uint64_t>(::gettid());
  const memory_event_kind kind = bytes > 0 ? memory_event_kind::grow : memory_event_kind::trim;
  const auto count = static_cast<std::size_t>(bytes > 0 ? bytes : -bytes);
  const std::lock_guard lock{mutex_};
  memory_event* const open = open_chunks(device, thread);
  if (open != nullptr && open->kind == kind) {
    open->bytes += count;
    return;
  }
  events_[++count_ % capacity] = {
      kind, memory_event_source::mapping, -1, device, 0, 0, count, 0, thread, event_time()};
}

void memory_change_ring::add(const memory_event& event) noexcept {
  const std::lock_guard lock{mutex_};
  if (memory_event* const open = open_chunks(event.device, event.thread))
    *open = event;
  else
    events_[++count_ % capacity] = event;
}

std::pair<std::optional<memory_event>, std::uint64_t> memory_change_ring::last(
    device_ref device, std::uint64_t after) noexcept {
  const std::lock_guard lock{mutex_};
  for (std::uint64_t number = count_; number > after && number + capacity > count_; --number)
    if (const memory_event& each = events_[number % capacity]; each.device == device.ordinal())
      return {each, number};
  return {std::nullopt, after};
}

std::vector<memory_event> memory_change_ring::all_of(device_ref device) {
  std::vector<memory_event> result;
  result.reserve(capacity);
  const std::lock_guard lock{mutex_};
  for (std::uint64_t number = count_ - std::min<std::uint64_t>(count_, capacity) + 1;
       number <= count_; ++number)
    if (const memory_event& each = events_[number % capacity]; each.device == device.ordinal())
      result.push_back(each);
  return result;
}

}  // namespace hipvmm::detail

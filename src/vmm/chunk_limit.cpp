// SPDX-License-Identifier: MIT
#include "vmm/chunk_limit.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/observers/memory_events.hpp"
#include "runtime/device.hpp"

namespace hipvmm::detail {
namespace {

struct device_count {
  std::mutex mutex;
  std::size_t bytes = 0;
  std::shared_ptr<chunk_limit> limit;
};

class all_counts {
 public:
  [[nodiscard]] device_count& find(device_ref device) noexcept {
    const std::lock_guard lock{mutex_};
    const auto found = of_devices_.find(device.ordinal());
    return found == of_devices_.end() ? none_ : found->second;
  }
  [[nodiscard]] device_count& of(device_ref device) {
    const std::lock_guard lock{mutex_};
    return of_devices_[device.ordinal()];
  }

 private:
  std::mutex mutex_;
  device_count none_;
  std::unordered_map<int, device_count> of_devices_;  // none is removed or moved
};

std::shared_ptr<chunk_limit> limit_of(device_ref device) noexcept {
  device_count& count = only<all_counts>().find(device);
  const std::lock_guard lock{count.mutex};
  return count.limit;
}

}  // namespace

void set_chunk_limit(device_ref device, std::shared_ptr<chunk_limit> limit) {
  device_count& count = only<all_counts>().of(device);
  {
    const std::lock_guard lock{count.mutex};
    if (count.limit)
      throw std::invalid_argument{"device " + std::to_string(device.ordinal()) +
                                  " has a memory_budget in this process already: one serves all "
                                  "regions, vectors and pools of the process"};
    limit->begin(count.bytes);
    count.limit = std::move(limit);
  }
  note_memory_change(device.ordinal(), 0);
}

void end_chunk_limit(device_ref device) noexcept {
  device_count& count = only<all_counts>().find(device);
  std::shared_ptr<chunk_limit> ended;  // destroyed without the lock
  {
    const std::lock_guard lock{count.mutex};
    ended.swap(count.limit);
  }
  note_memory_change(device.ordinal(), 0);
}

std::size_t chunk_bytes_left(device_ref device) noexcept {
  const std::shared_ptr<chunk_limit> limit = limit_of(device);
  return limit ? limit->bytes_left() : std::numeric_limits<std::size_t>::max();
}

std::size_t most_chunk_bytes(device_ref device) noexcept {
  const std::shared_ptr<chunk_limit> limit = limit_of(device);
  return limit ? limit->most() : 0;
}

void require_possible_chunks(device_ref device, std::size_t bytes, std::size_t requested) {
  if (const std::size_t most = most_memory(device); bytes > most)
    throw out_of_memory{shortage{.device = device.ordinal(),
                                 .requested = requested,
                                 .available = device.free_memory(),
                                 .most = most}};
  const std::shared_ptr<chunk_limit> limit = limit_of(device);
  if (!limit) return;
  if (const std::size_t most = limit->most(); most != 0 && bytes > most)
    throw out_of_memory{limit->refusal(device, requested)};
}

std::size_t created_chunk_bytes(device_ref device) noexcept {
  device_count& count = only<all_counts>().find(device);
  const std::lock_guard lock{count.mutex};
  return count.bytes;
}

chunk_charge::chunk_charge(device_ref device, std::size_t bytes) : device_{device}, bytes_{bytes} {
  std::shared_ptr<chunk_limit> refusing;
  {
    device_count& count = only<all_counts>().of(device);
    const std::lock_guard lock{count.mutex};
    if (!count.limit || count.limit->charge(bytes)) {
      count.bytes += bytes;
      return;
    }
    refusing = count.limit;
  }
  throw out_of_memory{refusing->refusal(device, bytes)};
}

chunk_charge::~chunk_charge() {
  if (stays_ || process_.is_of_parent()) return;
  device_count& count = only<all_counts>().find(device_);
  {
    const std::lock_guard lock{count.mutex};
    count.bytes -= bytes_;
    if (count.limit) count.limit->uncharge(bytes_);
  }
  if (is_created_) note_memory_change(device_.ordinal(), -static_cast<std::int64_t>(bytes_));
}

void chunk_charge::note_creation() noexcept {
  is_created_ = true;
  note_memory_change(device_.ordinal(), static_cast<std::int64_t>(bytes_));
}

bool make_room_within_limit(const out_of_memory& shortage, std::size_t bytes) noexcept {
  if (without_asking_others::is_set() || shortage.resource() != exhausted::budget ||
      shortage.device() < 0)
    return false;
  const std::shared_ptr<chunk_limit> limit = limit_of(device_ref{shortage.device()});
  const std::size_t needed = shortage.bytes_requested();
  // A part may be enough.
  return limit && (limit->make_room(std::max(needed, bytes)) || limit->bytes_left() >= needed);
}

}  // namespace hipvmm::detail

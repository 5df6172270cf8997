// SPDX-License-Identifier: MIT
#include "vmm/chunk_limit.hpp"

#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace hipvmm::detail {
namespace {

struct device_count {
  std::size_t bytes = 0;
  std::shared_ptr<chunk_limit> limit;
};

struct all_counts {
  std::mutex mutex;
  std::unordered_map<int, device_count> of_devices;  // by ordinal; none is removed

  // Never destroyed: chunk caches may live as long as the process.
  static all_counts& instance() {
    static auto& only = *new all_counts;
    return only;
  }
  [[nodiscard]] device_count* find(device_ref device) noexcept {
    const auto found = of_devices.find(device.ordinal());
    return found == of_devices.end() ? nullptr : &found->second;
  }
};

thread_local bool asks_nobody = false;

std::shared_ptr<chunk_limit> limit_of(device_ref device) noexcept {
  all_counts& all = all_counts::instance();
  const std::lock_guard lock{all.mutex};
  const device_count* const count = all.find(device);
  return count == nullptr ? nullptr : count->limit;
}

}  // namespace

void set_chunk_limit(device_ref device, std::shared_ptr<chunk_limit> limit) {
  all_counts& all = all_counts::instance();
  const std::lock_guard lock{all.mutex};
  device_count& count = all.of_devices[device.ordinal()];
  if (count.limit)
    throw std::invalid_argument{"device " + std::to_string(device.ordinal()) +
                                " has a memory_budget in this process already: one serves all "
                                "regions, vectors and pools of the process"};
  limit->begin(count.bytes);
  count.limit = std::move(limit);
}

void end_chunk_limit(device_ref device) noexcept {
  std::shared_ptr<chunk_limit> ended;
  all_counts& all = all_counts::instance();
  const std::lock_guard lock{all.mutex};
  if (device_count* const count = all.find(device)) ended = std::exchange(count->limit, nullptr);
}

std::size_t created_chunk_bytes(device_ref device) noexcept {
  all_counts& all = all_counts::instance();
  const std::lock_guard lock{all.mutex};
  const device_count* const count = all.find(device);
  return count == nullptr ? 0 : count->bytes;
}

void charge_chunk(device_ref device, std::size_t bytes) {
  std::shared_ptr<chunk_limit> refusing;
  {
    all_counts& all = all_counts::instance();
    const std::lock_guard lock{all.mutex};
    device_count& count = all.of_devices[device.ordinal()];
    if (!count.limit || count.limit->charge(bytes)) {
      count.bytes += bytes;
      return;
    }
    refusing = count.limit;
  }
  throw out_of_memory{exhausted::limit, device.ordinal(), bytes, refusing->bytes_left(),
                      refusing->explain()};
}

void uncharge_chunk(device_ref device, std::size_t bytes) noexcept {
  all_counts& all = all_counts::instance();
  const std::lock_guard lock{all.mutex};
  device_count* const count = all.find(device);
  if (count == nullptr) return;
  count->bytes -= bytes;
  if (count->limit) count->limit->uncharge(bytes);
}

bool make_room_within_limit(const out_of_memory& shortage) noexcept {
  if (asks_nobody || shortage.resource() != exhausted::limit || shortage.device() < 0) return false;
  const std::shared_ptr<chunk_limit> limit = limit_of(device_ref{shortage.device()});
  return limit && limit->make_room(shortage.bytes_requested());
}

without_asking_others::without_asking_others() noexcept
    : before_{std::exchange(asks_nobody, true)} {}

without_asking_others::~without_asking_others() { asks_nobody = before_; }

}  // namespace hipvmm::detail

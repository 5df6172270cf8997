// SPDX-License-Identifier: MIT
#include "runtime/ends/refused_ends.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace hipvmm::detail {
namespace {

struct kept_ends {
  std::mutex mutex;
  boost::intrusive::list<refused_end> ends;
  boost::intrusive::list<refused_end> tried;  // by the one thread that tries them again
  bool is_tried = false;
};

/// Apart, so that nobody who tries the others waits for a device.
kept_ends& all_kept(bool waits) noexcept {
  static never_destroyed<kept_ends> quick;
  static never_destroyed<kept_ends> waiting;
  return (waits ? waiting : quick).get();
}

}  // namespace

void refused_end::keep(std::unique_ptr<refused_end> one) noexcept {
  kept_ends& all = all_kept(one->may_wait());
  const std::lock_guard lock{all.mutex};
  all.ends.push_back(*one.release());
}

void refused_end::end_or_keep(std::unique_ptr<refused_end> one) noexcept {
  if (one->mark_.is_of_parent()) return static_cast<void>(one.release());
  if (!one->end(true)) return keep(std::move(one));
  one.reset();
  retry_refused_ends(refusals::stop);
}

bool refused_end::any_maps(const void* address, std::size_t bytes) noexcept {
  kept_ends& all = all_kept(false);
  const auto maps = [=](const refused_end& each) { return each.maps(address, bytes); };
  const std::lock_guard lock{all.mutex};
  return std::ranges::any_of(all.ends, maps) || std::ranges::any_of(all.tried, maps);
}

// AMD's hipMemRelease refuses null and calls before the runtime's start (ROCm/clr, hip_vm.cpp).
bool is_released(hipError_t result) noexcept {
  return result == hipSuccess || result == hipErrorInvalidValue ||
         result == hipErrorInvalidHandle || result == hipErrorInvalidDevicePointer ||
         result == hipErrorHostMemoryNotRegistered || result == hipErrorDeinitialized;
}

bool retry_refused_ends(refusals met) noexcept {
  if (without_reclaim::is_set()) return false;
  kept_ends& all = all_kept(met == refusals::wait);
  bool has_ended = false;
  std::unique_lock lock{all.mutex};
  if (all.is_tried || all.ends.empty()) return false;
  all.is_tried = true;
  all.tried.swap(all.ends);
  while (!all.tried.empty()) {
    refused_end& one = all.tried.front();
    lock.unlock();
    const bool ended = !one.mark_.is_of_parent() && one.end(false);
    lock.lock();
    all.tried.pop_front();
    if (!ended) {
      all.ends.push_back(one);
      if (met == refusals::stop) all.ends.splice(all.ends.begin(), all.tried);
      continue;
    }
    has_ended = true;
    lock.unlock();
    delete &one;
    lock.lock();
  }
  all.is_tried = false;
  return has_ended;
}

}  // namespace hipvmm::detail

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

kept_ends& all_kept() noexcept {
  static never_destroyed<kept_ends> only;
  return only.get();
}

}  // namespace

void refused_end::keep(std::unique_ptr<refused_end> one) noexcept {
  const std::lock_guard lock{all_kept().mutex};
  all_kept().ends.push_back(*one.release());
}

void refused_end::end_or_keep(std::unique_ptr<refused_end> one) noexcept {
  if (!one->end(true)) return keep(std::move(one));
  one.reset();
  retry_refused_ends(refusals::stop);
}

bool refused_end::any_maps(const void* address, std::size_t bytes) noexcept {
  kept_ends& all = all_kept();
  const auto maps = [=](const refused_end& each) { return each.maps(address, bytes); };
  const std::lock_guard lock{all.mutex};
  return std::ranges::any_of(all.ends, maps) || std::ranges::any_of(all.tried, maps);
}

// AMD's hipMemRelease refuses only null and calls before the runtime's start (ROCm/clr,
// hip_vm.cpp).
bool is_released(hipError_t result) noexcept {
  return result == hipSuccess || result == hipErrorInvalidValue ||
         result == hipErrorInvalidHandle || result == hipErrorInvalidDevicePointer ||
         result == hipErrorHostMemoryNotRegistered || result == hipErrorDeinitialized;
}

bool retry_refused_ends(refusals met) noexcept {
  if (without_reclaim::is_set()) return false;
  kept_ends& all = all_kept();
  bool has_ended = false;
  std::unique_lock lock{all.mutex};
  if (all.is_tried || all.ends.empty()) return false;
  all.is_tried = true;
  all.tried.swap(all.ends);
  while (!all.tried.empty()) {
    refused_end& one = all.tried.front();
    lock.unlock();
    const bool tries = !one.mark_.is_of_parent() && (met == refusals::pass || !one.waits_);
    const bool ended = tries && one.end(false);
    lock.lock();
    all.tried.pop_front();
    if (!ended) {
      all.ends.push_back(one);
      if (tries && met == refusals::stop) all.ends.splice(all.ends.begin(), all.tried);
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

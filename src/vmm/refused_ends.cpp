// SPDX-License-Identifier: MIT
#include "vmm/refused_ends.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace hipvmm::detail {
namespace {

struct kept_ends {
  std::mutex mutex;
  boost::intrusive::list<refused_end> ends;
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
  retry_refused_ends();
}

bool refused_end::any_maps(const void* address, std::size_t bytes) noexcept {
  const std::lock_guard lock{all_kept().mutex};
  return std::any_of(all_kept().ends.begin(), all_kept().ends.end(),
                     [=](const refused_end& each) { return each.maps(address, bytes); });
}

bool retry_refused_ends() noexcept {
  boost::intrusive::list<refused_end> taken;  // other threads find none meanwhile
  {
    const std::lock_guard lock{all_kept().mutex};
    taken.swap(all_kept().ends);
  }
  bool has_ended = false;
  while (!taken.empty()) {
    std::unique_ptr<refused_end> one{&taken.front()};
    taken.pop_front();
    const bool ended = !one->mark_.is_of_parent() && one->end(false);
    if (!ended) refused_end::keep(std::move(one));
    has_ended = has_ended || ended;
  }
  return has_ended;
}

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#include "vmm/refused_unmaps.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/observers/memory_events.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/unmap_range.hpp"

namespace hipvmm {
namespace {

bool overlaps(const mapping& map, const void* address, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const char*>(map.get());
  const auto* const from = static_cast<const char*>(address);
  return first < from + bytes && from < first + map.bytes();
}

}  // namespace

class refused_unmaps::retried final : public detail::refused_end {
 public:
  explicit retried(std::shared_ptr<link> to) noexcept : link_{std::move(to)} {}

 private:
  bool end(bool /*reports*/) noexcept override {
    list unmapped;  // its chunks are released after the lock
    const detail::events_wait later;
    const std::lock_guard lock{link_->mutex};
    return link_->of == nullptr || link_->of->unmap_for_others(unmapped);
  }

  std::shared_ptr<link> link_;
};

refused_unmaps::~refused_unmaps() {
  std::shared_ptr<link> left;
  {
    const std::lock_guard lock{mutex_};
    left = link_;
  }
  if (left == nullptr) return;
  const std::lock_guard lock{left->mutex};
  left->of = nullptr;
}

bool refused_unmaps::list_for_others() noexcept {
  try {
    if (link_ == nullptr) {
      link_ = std::make_shared<link>();
      link_->of = this;
    }
    detail::refused_end::keep(std::make_unique<retried>(link_));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool refused_unmaps::unmap_for_others(list& unmapped) noexcept {
  const std::lock_guard lock{mutex_};
  while (!entries_.empty()) {
    const auto first = entries_.begin();
    try {
      first->unmap();
    } catch (const std::exception&) {
      entries_.splice(entries_.end(), entries_, first);
      return !unmapped.empty() && list_for_others();
    }
    unmapped.splice(unmapped.end(), entries_, first);
    count_.store(entries_.size(), std::memory_order_release);
  }
  link_.reset();
  return true;
}

void refused_unmaps::entry::unmap() {
  if (is_doubtful && !detail::is_freshly_mapped(map.get(), owner)) {
    static_cast<void>(map.release());
    return;
  }
  is_doubtful = false;
  map.unmap();
}

void refused_unmaps::entry::resolve_doubt() noexcept {
  // In doubt an unmap could end the process.
  if (!detail::report_exceptions([&] { return detail::is_freshly_mapped(map.get(), owner); }))
    static_cast<void>(map.release());
}

template <typename Complete>
void refused_unmaps::keep(mapping& map, ihipMemGenericAllocationHandle* mapped,
                          Complete complete) noexcept {
  detail::report_exceptions([&] {
    list one;
    entry& kept = one.emplace_back();
    kept.map = std::move(map);
    kept.mapped = mapped;
    complete(kept);
    put_back(one);
  });
}

void refused_unmaps::unmap_or_defer(mapping& map, ihipMemGenericAllocationHandle* mapped,
                                    physical_chunk* owned) noexcept {
  if (map.empty()) return;
  // Nobody uses the memory any more, whether it is unmapped or not.
  map.deregister();
  detail::report_exceptions([&map] { map.unmap(); });
  if (map.empty()) return;
  // Without memory of the host ~mapping tries once more.
  keep(map, mapped, [owned](entry& kept) {
    if (owned != nullptr) kept.chunk = std::move(*owned);
  });
}

void refused_unmaps::verify_or_keep(mapping& made, const physical_chunk& chunk,
                                    const address_reservation& addresses) {
  try {
    if (detail::is_freshly_mapped(made.get(), chunk.device())) return;
    static_cast<void>(made.release());
    detail::note_failed_map(addresses);
  } catch (...) {
    // A record too many costs two calls at the free.
    detail::note_failed_map(addresses);
    keep(made, chunk.get(), [&chunk](entry& kept) {
      kept.is_doubtful = true;
      kept.owner = chunk.device();
    });
    // Left as it is without memory of the host.
    static_cast<void>(made.release());
    throw;
  }
  detail::check(hipErrorInvalidValue, "hipMemMap");
}

bool refused_unmaps::take_if_mapped(physical_chunk& chunk) noexcept {
  if (empty() || chunk.empty()) return false;
  const std::lock_guard lock{mutex_};
  const auto found = std::ranges::find(entries_, chunk.get(), &entry::mapped);
  if (found == entries_.end()) return false;
  found->chunk = std::move(chunk);
  return true;
}

void refused_unmaps::retry(const void* address, std::size_t bytes) {
  if (empty()) return;
  list unmapped;  // its chunks are released after the lock
  std::optional<hip_error> refused;
  const detail::events_wait later;
  {
    // Held while HIP unmaps, because take_if_mapped() must find each mapping until it is gone.
    const std::lock_guard lock{mutex_};
    for (auto next = entries_.begin(); next != entries_.end();) {
      const auto each = next++;
      try {
        each->unmap();
        unmapped.splice(unmapped.end(), entries_, each);
      } catch (const hip_error& error) {
        if (overlaps(each->map, address, bytes)) refused = error;
      }
    }
    count_.store(entries_.size(), std::memory_order_release);
  }
  if (refused) throw hip_error{*refused};
}

refused_unmaps::list refused_unmaps::take(const void* address, std::size_t bytes) noexcept {
  list taken;
  if (empty()) return taken;
  const std::lock_guard lock{mutex_};
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto each = next++;
    if (overlaps(each->map, address, bytes)) taken.splice(taken.end(), entries_, each);
  }
  count_.store(entries_.size(), std::memory_order_release);
  return taken;
}

void refused_unmaps::put_back(list& taken) noexcept {
  const std::lock_guard lock{mutex_};
  entries_.splice(entries_.end(), taken);
  count_.store(entries_.size(), std::memory_order_release);
  if (!entries_.empty() && link_ == nullptr && !list_for_others()) link_.reset();
}

}  // namespace hipvmm

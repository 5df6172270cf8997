// SPDX-License-Identifier: MIT
#include "race/race_memory.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace hipvmm::host_provider {
namespace {

race_part part_of(memory_use use) noexcept {
  switch (use) {
    case memory_use::prefetch:
      return race_part::prefetches;
    case memory_use::read:
      return race_part::reads;
    default:
      return race_part::writes;
  }
}

race_party party_of(const race_access& access) { return {access.deed.origin, part_of(access.use)}; }

bool is_same(const race_deed& a, const race_deed& b) noexcept {
  return a.stream == b.stream && a.count == b.count;
}

bool race(const race_access& a, const race_access& b) noexcept {
  if (a.use == memory_use::prefetch || b.use == memory_use::prefetch) return false;
  return a.use == memory_use::write || b.use == memory_use::write;
}

// Whether work ordered after `later`, or a wait for it, need not check `earlier` any more.
bool stands_for(const race_access& later, const race_access& earlier, const race_view& view) {
  return later.device == earlier.device && later.use >= earlier.use && view.is_after(earlier.deed);
}

void add(race_memory::findings& found, race_fault fault, const race_party& earlier,
         const race_party& later, race_range bytes) {
  const auto at = std::find_if(found.begin(), found.end(), [&](const race_finding& each) {
    return each.end == bytes.start && each.fault == fault &&
           each.earlier.origin == earlier.origin && each.earlier.part == earlier.part &&
           each.later.part == later.part;
  });
  if (at != found.end()) {
    at->end = bytes.end;
  } else {
    found.push_back({fault, earlier, later, bytes.start, bytes.end, {}, nullptr});
  }
}

}  // namespace

race_memory::findings race_memory::use(race_range bytes, const race_access& now,
                                       const race_view& view) {
  findings found;
  const race_party later = party_of(now);
  judge_claims(bytes, later, view, found);
  bool stands_alone = true;
  cells_.change_all(bytes.start, bytes.end, [&](address start, address end, cell& uses) {
    for (const race_access& each : uses) {
      if (!race(each, now) || view.is_after(each.deed)) continue;
      add(found, race_fault::race, party_of(each), later, {start, end});
    }
    std::erase_if(uses, [&](const race_access& each) {
      return stands_for(now, each, view) ||
             view.streams.is_known(each.deed.stream, each.deed.count);
    });
    stands_alone = stands_alone && uses.empty();
    uses.push_back(now);
  });
  // One piece instead of many: otherwise a buffer that is used in parts stays in parts.
  if (stands_alone) cells_.put(bytes.start, bytes.end, {now});
  return with_holders(std::move(found));
}

void race_memory::forget(const race_deed& deed) {
  cells_.erase_if([&deed](cell& uses) {
    std::erase_if(uses, [&deed](const race_access& each) { return is_same(each.deed, deed); });
    return uses.empty();
  });
}

void race_memory::lend(const void* lender, race_range bytes, const race_deed& now) {
  erase(bytes);
  layers_.front().put(bytes.start, bytes.end, {bytes, now, std::nullopt, lender});
}

race_memory::findings race_memory::take_back(race_range bytes, const race_deed& now,
                                             const race_view& view) {
  findings found;
  judge_free(bytes, {now.origin, race_part::frees}, view, found);
  found = with_holders(std::move(found));
  erase(bytes);
  return found;
}

race_memory::findings race_memory::allocate(race_range bytes, const race_deed& now,
                                            const race_view& view) {
  findings found;
  const race_party later{now.origin, race_part::allocates};
  const std::size_t chosen = layer_for(bytes);
  if (chosen == layers_.size()) layers_.emplace_back();
  for (std::size_t below = 0; below < chosen; ++below) {
    layers_[below].visit(bytes.start, bytes.end,
                         [&](address start, address end, const claim& each) {
                           if (view.is_after(each.allocated)) return;
                           add(found, race_fault::use_before_allocation,
                               {each.allocated.origin, race_part::allocates}, later, {start, end});
                         });
  }
  layers_[chosen].visit(bytes.start, bytes.end, [&](address start, address end, const claim& each) {
    if (each.freed && view.is_after(*each.freed)) return;
    const race_party earlier = each.freed ? race_party{each.freed->origin, race_part::frees}
                                          : race_party{each.allocated.origin, race_part::allocates};
    add(found, race_fault::reuse, earlier, later, {start, end});
  });
  if (!found.empty()) forget_unordered(bytes, view);
  found = with_holders(std::move(found));
  for (std::size_t i = chosen; i < layers_.size(); ++i) layers_[i].erase(bytes.start, bytes.end);
  layers_[chosen].put(bytes.start, bytes.end, {bytes, now, std::nullopt, nullptr});
  return found;
}

std::optional<race_memory::findings> race_memory::deallocate(race_range bytes, const race_deed& now,
                                                             const race_view* view) {
  const race_party later{now.origin, race_part::frees};
  std::optional<race_deed> freed;
  for (std::size_t i = layers_.size(); i-- > 1;) {
    std::optional<claim> held;
    layers_[i].visit(bytes.start, bytes.end, [&](address, address, const claim& each) {
      if (each.bytes.start != bytes.start || each.bytes.end != bytes.end) return;
      if (!each.freed) held = each;
      if (each.freed && !freed) freed = each.freed;
    });
    if (!held) continue;
    findings found;
    if (view != nullptr) judge_free(bytes, later, *view, found);
    found = with_holders(std::move(found));
    for (std::size_t above = i + 1; above < layers_.size(); ++above) {
      layers_[above].erase(bytes.start, bytes.end);
    }
    held->freed = now;
    layers_[i].put(bytes.start, bytes.end, *held);
    // Uses in order stay, because the memory itself may end.
    if (view != nullptr) forget_unordered(bytes, *view);
    return found;
  }
  if (!freed) return std::nullopt;
  findings found;
  add(found, race_fault::use_after_free, {freed->origin, race_part::frees}, later, bytes);
  return found;
}

void race_memory::return_below(race_range bytes) {
  for (std::size_t i = layer_for(bytes); i < layers_.size(); ++i) {
    layers_[i].erase(bytes.start, bytes.end);
  }
}

race_memory::findings race_memory::end(race_range bytes, const race_party& now,
                                       const race_view& host) {
  findings found;
  cells_.visit(bytes.start, bytes.end, [&](address start, address end, const cell& uses) {
    for (const race_access& each : uses) {
      if (host.is_after(each.deed)) continue;
      add(found, race_fault::taken_away, party_of(each), now, {start, end});
    }
  });
  found = with_holders(std::move(found));
  erase(bytes);
  return found;
}

race_memory::findings race_memory::revoke(race_range bytes, const access_change& change,
                                          const race_party& now, const race_view& host) {
  const auto loses = [&change](const race_access& each) {
    if (each.device < 0 || (change.named & only(each.device)) == 0) return false;
    const device_set left = each.use == memory_use::write ? change.writers : change.readers;
    return (left & only(each.device)) == 0;
  };
  findings found;
  cells_.visit(bytes.start, bytes.end, [&](address start, address end, const cell& uses) {
    for (const race_access& each : uses) {
      if (!loses(each) || host.is_after(each.deed)) continue;
      add(found, race_fault::taken_away, party_of(each), now, {start, end});
    }
  });
  return with_holders(std::move(found));
}

race_memory::findings race_memory::revoke(const void* lender, const access_change& change,
                                          const race_party& now, const race_view& host) {
  findings found;
  layers_.front().visit(0, std::numeric_limits<address>::max(),
                        [&](address start, address end, const claim& each) {
                          if (each.lender != lender) return;
                          for (race_finding& next : revoke({start, end}, change, now, host)) {
                            found.push_back(std::move(next));
                          }
                        });
  return found;
}

void race_memory::tidy(const race_view& host) {
  if (cells_.size() < tidy_at_) return;
  cells_.erase_if([&host](cell& uses) {
    std::erase_if(uses, [&host](const race_access& each) { return host.is_after(each.deed); });
    return uses.empty();
  });
  tidy_at_ = 2 * cells_.size() + 1024;
}

// Adds the last allocation of the bytes now, because it may be forgotten when the report is
// written.
race_memory::findings race_memory::with_holders(findings found) const {
  for (race_finding& each : found) {
    for (const layer& held : layers_) {
      held.visit(each.start, each.start + 1, [&each](address at, address, const claim& holder) {
        each.holder = holder.allocated.origin;
        each.place = "at offset " + std::to_string(at - holder.bytes.start) + " of " +
                     std::to_string(holder.bytes.end - holder.bytes.start) + " bytes from " +
                     holder.allocated.origin->function;
      });
    }
  }
  return found;
}

void race_memory::judge_claims(race_range bytes, const race_party& now, const race_view& view,
                               findings& found) const {
  for (const layer& each : layers_) {
    each.visit(bytes.start, bytes.end, [&](address start, address end, const claim& holder) {
      if (holder.freed) {
        add(found, race_fault::use_after_free, {holder.freed->origin, race_part::frees}, now,
            {start, end});
      } else if (!view.is_after(holder.allocated)) {
        add(found, race_fault::use_before_allocation,
            {holder.allocated.origin, race_part::allocates}, now, {start, end});
      }
    });
  }
}

void race_memory::judge_free(race_range bytes, const race_party& now, const race_view& view,
                             findings& found) const {
  for (const layer& each : layers_) {
    each.visit(bytes.start, bytes.end, [&](address start, address end, const claim& holder) {
      if (holder.freed || view.is_after(holder.allocated)) return;
      add(found, race_fault::use_before_allocation, {holder.allocated.origin, race_part::allocates},
          now, {start, end});
    });
  }
  cells_.visit(bytes.start, bytes.end, [&](address start, address end, const cell& uses) {
    for (const race_access& each : uses) {
      if (view.is_after(each.deed)) continue;
      add(found, race_fault::use_after_free, party_of(each), now, {start, end});
    }
  });
}

// A fault of a sub-allocator is reported once, and not again as a race of its callers.
void race_memory::forget_unordered(race_range bytes, const race_view& view) {
  cells_.change(bytes.start, bytes.end, [&view](address, address, cell& uses) {
    std::erase_if(uses, [&view](const race_access& each) { return !view.is_after(each.deed); });
  });
}

void race_memory::erase(race_range bytes) {
  cells_.erase(bytes.start, bytes.end);
  for (layer& each : layers_) each.erase(bytes.start, bytes.end);
}

// The first layer with no claim on any of the bytes, or with a claim on a part only. In each layer
// below one claim holds all of them: this sub-allocator allocated from that one.
std::size_t race_memory::layer_for(race_range bytes) const {
  for (std::size_t i = 1; i < layers_.size(); ++i) {
    bool stands_on_it = false;
    layers_[i].visit(bytes.start, bytes.end, [&](address, address, const claim& each) {
      stands_on_it = stands_on_it || (!each.freed && each.bytes.start <= bytes.start &&
                                      bytes.end <= each.bytes.end);
    });
    if (!stands_on_it) return i;
  }
  return layers_.size();
}

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "memory/address.hpp"
#include "race/race_origin.hpp"
#include "race/race_ranges.hpp"
#include "race/race_reports.hpp"
#include "race/race_streams.hpp"
#include "stream/operation.hpp"

namespace hipvmm::host_provider {

/// The work before a point: work that the host knows to have finished and, for a point in a stream,
/// the predecessors of that point.
struct race_view {
  const race_streams& streams;
  const race_clock* clock;  ///< null: the host itself

  [[nodiscard]] bool is_after(const race_deed& deed) const noexcept {
    return streams.is_known(deed.stream, deed.count) ||
           (clock != nullptr && clock->covers(deed.stream, deed.count));
  }
};

struct race_range {
  address start;
  address end;
};

/// A use of bytes that the host may not know to have finished.
struct race_access {
  race_deed deed;
  memory_use use;
  int device;  ///< on whose behalf
};

/// The uses and holders of bytes. Each function judges one step, records it, and returns its
/// faults. Not thread-safe.
class race_memory {
 public:
  using findings = std::vector<race_finding>;

  findings use(race_range bytes, const race_access& now, const race_view& view);
  /// The operation was not accepted.
  void forget(const race_deed& deed);

  /// A pool of the provider lends bytes, which it has ordered itself, and takes them back.
  void lend(const void* lender, race_range bytes, const race_deed& now);
  findings take_back(race_range bytes, const race_deed& now, const race_view& view);

  /// A sub-allocator allocates bytes. If they are inside an allocation of another one, they are a
  /// layer of their own above it: sub-allocators may allocate from each other.
  findings allocate(race_range bytes, const race_deed& now, const race_view& view);
  /// nullopt when no sub-allocator has allocated exactly these bytes. Without a view the
  /// sub-allocator orders earlier work itself: only later work is judged.
  std::optional<findings> deallocate(race_range bytes, const race_deed& now, const race_view* view);
  /// A sub-allocator returns bytes to its upstream: its allocations there, and those of
  /// sub-allocators above it, are forgotten.
  void return_below(race_range bytes);

  /// The memory ends, or some devices lose rights to it.
  findings end(race_range bytes, const race_party& now, const race_view& host);
  findings revoke(race_range bytes, const access_change& change, const race_party& now,
                  const race_view& host);
  findings revoke(const void* lender, const access_change& change, const race_party& now,
                  const race_view& host);

  /// Forgets uses that the host knows to have finished, once there are many more than last time.
  void tidy(const race_view& host);

 private:
  struct claim {
    race_range bytes;
    race_deed allocated;
    std::optional<race_deed> freed;
    const void* lender;  // null: a sub-allocator
  };
  // Only uses that no later one covers: work after the later one comes after them.
  using cell = std::vector<race_access>;
  using layer = race_ranges<claim>;

  void judge_claims(race_range bytes, const race_party& now, const race_view& view,
                    findings& found) const;
  void judge_free(race_range bytes, const race_party& now, const race_view& view,
                  findings& found) const;
  [[nodiscard]] findings with_holders(findings found) const;
  void forget_unordered(race_range bytes, const race_view& view);
  void erase(race_range bytes);
  [[nodiscard]] std::size_t layer_for(race_range bytes) const;

  race_ranges<cell> cells_;
  std::vector<layer> layers_{1};  // the first is that of the provider's pools
  std::size_t tidy_at_ = 1024;
};

}  // namespace hipvmm::host_provider

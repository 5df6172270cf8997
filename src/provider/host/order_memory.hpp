// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "address_map.hpp"
#include "order_origin.hpp"
#include "order_ranges.hpp"
#include "order_reports.hpp"
#include "order_streams.hpp"

namespace hipvmm::host_provider {

/// What comes before a point: what the host knows to have finished and, of a point in a stream,
/// what that point comes after.
struct order_view {
  const order_streams& streams;
  const order_clock* clock;  ///< null: the host itself

  [[nodiscard]] bool is_after(const order_deed& deed) const noexcept {
    return streams.is_known(deed.stream, deed.count) ||
           (clock != nullptr && clock->covers(deed.stream, deed.count));
  }
};

struct order_range {
  address start;
  address end;
};

/// A use of bytes that the host may not know to have finished.
struct order_access {
  order_deed deed;
  order_use use;
  int device;  ///< on whose behalf
};

/// What has been done to which bytes, and who holds them: finds what is not in order. Each function
/// judges one step, records it, and gives what is wrong with it. Not thread-safe.
class order_memory {
 public:
  using findings = std::vector<order_finding>;

  findings use(order_range bytes, const order_access& now, const order_view& view);
  /// The operation did not come to be.
  void forget(const order_deed& deed);

  /// A pool of the provider, which `lender` tells from others, lends bytes, which it has kept in
  /// order itself, and takes them back.
  void lend(const void* lender, order_range bytes, const order_deed& now);
  findings take_back(order_range bytes, const order_deed& now, const order_view& view);

  /// A sub-allocator hands bytes out. Bytes inside of what another one has handed out are its own
  /// layer above, so that sub-allocators may stand on each other.
  findings allocate(order_range bytes, const order_deed& now, const order_view& view);
  /// Empty when no sub-allocator has handed out these very bytes.
  std::optional<findings> deallocate(order_range bytes, const order_deed& now,
                                     const order_view& view);

  /// The memory ends, or some devices lose rights to it.
  findings end(order_range bytes, const order_party& now, const order_view& host);
  findings revoke(order_range bytes, const access_change& change, const order_party& now,
                  const order_view& host);
  findings revoke(const void* lender, const access_change& change, const order_party& now,
                  const order_view& host);

  /// Forgets uses that the host knows to have finished, once there are many more than last time.
  void tidy(const order_view& host);

 private:
  struct claim {
    order_range bytes;
    order_deed allocated;
    std::optional<order_deed> freed;
    const void* lender;  // null: a sub-allocator
  };
  // Only uses that no later one stands for: what comes after that one comes after them.
  using cell = std::vector<order_access>;
  using layer = order_ranges<claim>;

  void judge_claims(order_range bytes, const order_party& now, const order_view& view,
                    findings& found) const;
  void judge_free(order_range bytes, const order_party& now, const order_view& view,
                  findings& found) const;
  [[nodiscard]] findings with_holders(findings found) const;
  void forget_unordered(order_range bytes, const order_view& view);
  void erase(order_range bytes);
  [[nodiscard]] std::size_t layer_for(order_range bytes) const;

  order_ranges<cell> cells_;
  std::vector<layer> layers_{1};  // the first is that of the provider's pools
  std::size_t tidy_at_ = 1024;
};

}  // namespace hipvmm::host_provider

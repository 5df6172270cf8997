// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "address_map.hpp"
#include "order_origin.hpp"

namespace hipvmm::host_provider {

/// The classes of faults that docs/reference/providers.md explains.
enum class order_fault { use_before_allocation, use_after_free, reuse, taken_away, race };

/// What one side of a fault does.
enum class order_part { prefetches, reads, writes, allocates, frees, takes_away };

struct order_party {
  std::shared_ptr<const order_origin> origin;
  order_part part;
};

struct order_finding {
  order_fault fault;
  order_party earlier;  ///< submitted first
  order_party later;
  address start;
  address end;
  std::string place;                           ///< where the bytes lie, in words
  std::shared_ptr<const order_origin> holder;  ///< who handed the bytes out last; may be null
};

/// The reports made so far: each pair of call stacks once for each class of fault. Not thread-safe.
class order_reports {
 public:
  /// Whether nothing has been told of this class and these two stacks; counts them as told.
  bool is_new(const order_finding& found);
  /// Writes the report to standard error, in one piece.
  void add(const order_finding& found);
  void clear();

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] const std::string& last() const noexcept { return last_; }

 private:
  std::set<std::tuple<order_fault, std::size_t, std::size_t>> told_;
  std::uint64_t count_ = 0;
  std::string last_;
};

}  // namespace hipvmm::host_provider

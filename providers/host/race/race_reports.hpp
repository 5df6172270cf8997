// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "memory/address.hpp"
#include "race/race_origin.hpp"

namespace hipvmm::host_provider {

/// The classes of faults that providers/host/docs/order_checker.md explains.
enum class race_fault { use_before_allocation, use_after_free, reuse, taken_away, race };

enum class race_part { prefetches, reads, writes, allocates, frees, takes_away };

struct race_party {
  std::shared_ptr<const race_origin> origin;
  race_part part;
};

struct race_finding {
  race_fault fault;
  race_party earlier;  ///< submitted first
  race_party later;
  address start;
  address end;
  std::string place;                          ///< the place of the bytes, in words
  std::shared_ptr<const race_origin> holder;  ///< allocated the bytes last; may be null
};

/// Reports each pair of call stacks once for each class of fault. Not thread-safe.
class race_reports {
 public:
  /// Counts `found` as reported.
  bool is_new(const race_finding& found);
  void add(const race_finding& found);
  void clear();

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] const std::string& last() const noexcept { return last_; }

 private:
  std::set<std::tuple<race_fault, std::size_t, std::size_t>> told_;
  std::uint64_t count_ = 0;
  std::string last_;
};

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#include <hipvmm/container/reserve_all.hpp>

#include <algorithm>

#include <boost/container/small_vector.hpp>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm {
namespace {

struct grown_storage {
  growable_storage* storage;
  std::size_t bytes_before;
};

/// Each request by itself may fit, and would take memory of other processes for nothing.
/// Throws: out_of_memory if a device's memory_budget could never hold what they add.
void require_budgets(std::initializer_list<reservation_request> requests) {
  boost::container::small_vector<const reservation_request*, 8> largest;  // of each vector
  largest.reserve(requests.size());
  for (const reservation_request& each : requests) {
    const growable_storage& of = each.storage();
    // A limit counts chunks only.
    if (!of.is_address_stable() || !of.options().chunks.placement.is_one_device()) continue;
    const auto same = std::ranges::find_if(
        largest, [&](const auto* other) { return &other->storage() == &each.storage(); });
    if (same == largest.end())
      largest.push_back(&each);
    else if ((*same)->bytes() < each.bytes())
      *same = &each;
  }
  for (const reservation_request* const first : largest) {
    const device_ref device = first->storage().device();
    std::size_t bytes = 0;
    for (const reservation_request* const each : largest) {
      const std::size_t present = each->storage().capacity_bytes();
      if (each->storage().device() == device)
        bytes = add_bytes(bytes, each->bytes() - std::min(each->bytes(), present));
    }
    detail::require_most_chunk_bytes(device, bytes, bytes);
  }
}

}  // namespace

void reserve_all(std::initializer_list<reservation_request> requests) {
  if (requests.size() > 1) require_budgets(requests);
  boost::container::small_vector<grown_storage, 8> grown;
  grown.reserve(requests.size());
  try {
    for (const reservation_request& each : requests) {
      const std::size_t before = each.storage().capacity_bytes();
      each.storage().reserve(each.bytes());
      grown.push_back({&each.storage(), before});
    }
  } catch (...) {
    for (; !grown.empty(); grown.pop_back()) {
      const grown_storage& last = grown.back();
      detail::report_exceptions([&] { last.storage->undo_growth(last.bytes_before); });
    }
    throw;
  }
}

}  // namespace hipvmm

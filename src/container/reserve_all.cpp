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

/// Each request by itself may fit, and would take memory of others for nothing. Throws:
/// out_of_memory if a device, or its memory_budget, could never hold all vectors of `requests`.
void require_possible(std::initializer_list<reservation_request> requests) {
  struct vector_size {
    const growable_storage* storage;
    std::size_t bytes;
  };
  boost::container::small_vector<vector_size, 8> sizes;
  for (const reservation_request& each : requests) {
    const growable_storage& of = each.storage();
    // Limits count no vector without chunks.
    if (!of.is_address_stable() || !of.options().chunks.placement.is_one_device()) continue;
    const auto same = std::ranges::find(sizes, &of, &vector_size::storage);
    if (same == sizes.end())
      sizes.push_back({&of, std::max(of.capacity_bytes(), each.bytes())});
    else
      same->bytes = std::max(same->bytes, each.bytes());
  }
  for (const vector_size& first : sizes) {
    const device_ref device = first.storage->device();
    std::size_t bytes = 0;
    std::size_t added = 0;
    for (const auto& [storage, then] : sizes) {
      if (storage->device() != device) continue;
      bytes = add_bytes(bytes, then);
      added += then - storage->capacity_bytes();
    }
    detail::require_possible_chunks(device, bytes, added);
  }
}

}  // namespace

void reserve_all(std::initializer_list<reservation_request> requests) {
  if (requests.size() > 1) require_possible(requests);
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

// SPDX-License-Identifier: MIT
#include <hipvmm/container/reserve_all.hpp>

#include <algorithm>
#include <map>

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
/// out_of_memory if a device, or its memory_budget, could never hold the chunks to be added.
void require_possible(std::initializer_list<reservation_request> requests) {
  std::map<const growable_storage*, std::size_t> added;
  for (const reservation_request& each : requests) {
    const growable_storage& of = each.storage();
    if (!of.has_chunks() || !of.options().chunks.placement.is_one_device()) continue;
    std::size_t& most = added[&of];
    most = std::max(most, each.bytes() - std::min(each.bytes(), of.capacity_bytes()));
  }
  std::map<device_ref, std::size_t> of_devices;
  for (const auto& [storage, bytes] : added)
    if (bytes != 0) of_devices[storage->device()] = add_bytes(of_devices[storage->device()], bytes);
  for (const auto& [device, bytes] : of_devices)
    detail::require_possible_chunks(device, bytes, bytes);
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

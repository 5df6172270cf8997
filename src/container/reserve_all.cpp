// SPDX-License-Identifier: MIT
#include <hipvmm/container/reserve_all.hpp>

#include <boost/container/small_vector.hpp>

#include "core/check.hpp"

namespace hipvmm {
namespace {

struct grown_storage {
  growable_storage* storage;
  std::size_t bytes_before;
};

}  // namespace

void reserve_all(std::initializer_list<reservation_request> requests) {
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

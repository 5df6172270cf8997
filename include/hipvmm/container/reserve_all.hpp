// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>

#include <hipvmm/container/growable_device_vector.hpp>

namespace hipvmm {

class reservation_request {
 public:
  template <typename T>
  reservation_request(growable_device_vector<T>& vector, std::size_t count)
      : storage_{&vector}, bytes_{growable_device_vector<T>::checked_bytes(count)} {}

  [[nodiscard]] growable_storage& storage() const noexcept { return *storage_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  growable_storage* storage_;
  std::size_t bytes_;
};

/// Calls growable_device_vector::reserve() for each request, or adds no capacity:
/// hipvmm::reserve_all({{points, n}, {colours, 3 * n}}).
/// Chunks that a device, or its memory_budget, could never hold together take no memory of others.
/// If one throws, vectors that grew past max_size() keep their new address, and vectors without
/// chunks their capacity. Throws: as reserve().
void reserve_all(std::initializer_list<reservation_request> requests);

}  // namespace hipvmm

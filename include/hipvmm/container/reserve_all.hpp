// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>

#include <hipvmm/container/growable_device_vector.hpp>

namespace hipvmm {

/// A vector of any element type and the elements it is to hold, for reserve_all().
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

/// Backs all elements that the requests name, as growable_device_vector::reserve() for each, or
/// adds nothing: hipvmm::reserve_all({{points, n}, {colours, 3 * n}}).
/// - After a failure capacity added by growth past max_size() stays, and that of vectors without
///   chunks, which have copied their elements by then.
/// - Needs no stream; waits as reserve() does.
/// Throws: as reserve() of the first vector whose growth failed.
void reserve_all(std::initializer_list<reservation_request> requests);

}  // namespace hipvmm

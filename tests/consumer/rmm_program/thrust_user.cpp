// SPDX-License-Identifier: MIT
// A vector of Thrust's in memory of a resource, as programs of RMM's have it.
#include <cstddef>
#include <rmm/device_vector.hpp>

rmm::device_vector<int> numbers_of(std::size_t count) { return rmm::device_vector<int>(count); }

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/ipc/ranks/partitioned_vector.hpp>
#include "ipc/ranks/run_ranks.hpp"

namespace hipvmm::test {

/// The elements of a partitioned_vector, by rank.
using parts_model = std::vector<std::vector<std::uint32_t>>;

/// Numbers that name the rank and the place, from `first` on.
inline std::vector<std::uint32_t> numbers_of_rank(int rank, std::size_t first, std::size_t count) {
  std::vector<std::uint32_t> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<std::uint32_t>(rank) << 24 | static_cast<std::uint32_t>(first + i);
  return result;
}

/// The same elements in the same order, evenly.
inline parts_model balanced(const parts_model& parts) {
  std::vector<std::uint32_t> all;
  for (const std::vector<std::uint32_t>& each : parts)
    all.insert(all.end(), each.begin(), each.end());
  parts_model result;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const std::size_t count =
        all.size() / parts.size() + (rank < all.size() % parts.size() ? 1 : 0);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    result.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    at += count;
  }
  return result;
}

}  // namespace hipvmm::test

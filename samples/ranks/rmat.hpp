// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "kernels.hpp"

using vertex = unsigned;

/// Two vertices: an edge, or a vertex that was found and its predecessor.
struct edge {
  vertex from;
  vertex to;

  HIPVMM_HOST_DEVICE friend bool operator<(const edge& a, const edge& b) {
    return a.from < b.from || (a.from == b.from && a.to < b.to);
  }
};

/// The edge number `index` of an R-MAT graph with 2^scale vertices, the same on every rank: each
/// bit of the two ends chooses a quadrant of the matrix, by 57, 19, 19 and 5 percent. Many vertices
/// have no edge, and a few have thousands.
HIPVMM_HOST_DEVICE inline edge rmat_edge(std::uint64_t index, unsigned scale) {
  edge result{0, 0};
  for (unsigned bit = 0; bit < scale; ++bit) {
    const auto percent = mixed(index * 64 + bit) % 100;
    result.from = result.from << 1 | (percent >= 76 ? 1U : 0U);
    result.to = result.to << 1 | ((percent >= 57 && percent < 76) || percent >= 95 ? 1U : 0U);
  }
  // Vertices with many edges would all be on the first rank.
  const vertex mask = (1U << scale) - 1;
  result.from = result.from * 2654435761U & mask;
  result.to = result.to * 2654435761U & mask;
  return result;
}

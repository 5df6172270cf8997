// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/ipc/ranks/exchange.hpp>
#include "ipc/ranks/run_ranks.hpp"
#include "support/devices.hpp"
#include "support/random_seed.hpp"

namespace hipvmm::test {
namespace {

using elements = std::vector<std::uint32_t>;

/// What rank `from` sends to rank `to` in one step of a random test: the same on every rank.
elements sent(std::uint32_t seed, int step, int from, int to) {
  std::mt19937 random{seed + static_cast<std::uint32_t>(step * 10000 + from * 100 + to)};
  // Zero often, and sometimes many.
  const std::uint32_t kind = random() % 4;
  const std::size_t count = kind == 0 ? 0 : kind == 1 ? random() % 3000 : random() % 20;
  elements result(count);
  for (std::uint32_t& each : result) each = static_cast<std::uint32_t>(random());
  return result;
}

void exchange_at_random(int size, const std::vector<device_ref>& devices, std::uint32_t seed) {
  CAPTURE(seed);
  CAPTURE(size);
  run_ranks(size, devices, [&](thread_rank& one) {
    const int rank = one.ranks.rank();
    growable_device_vector<std::uint32_t> out{one.ranks.device()};
    elements model;
    for (int step = 0; step < 4; ++step) {
      growable_device_vector<std::uint32_t> source{one.ranks.device()};
      std::vector<std::size_t> counts;
      for (int to = 0; to < size; ++to) {
        const elements piece = sent(seed, step, rank, to);
        counts.push_back(piece.size());
        source.append(piece, one.stream);
      }
      exchange_result expected;
      for (int from = 0; from < size; ++from) {
        const elements piece = sent(seed, step, from, rank);
        expected.counts.push_back(piece.size());
        expected.offsets.push_back(model.size());
        model.insert(model.end(), piece.begin(), piece.end());
      }
      expected.offsets.push_back(model.size());
      const exchange_result got = exchange(source, counts, out, one.ranks, one.stream);
      CHECK(got.counts == expected.counts);
      CHECK(got.offsets == expected.offsets);
      // The source may change at once, in the stream.
      source.assign(source.size(), 0U, one.stream);
    }
    CHECK(out.copy_to_host(one.stream) == model);
  });
}

TEST_CASE("exchange: random counts of 1 to 8 ranks on one device arrive as in a plain model") {
  const auto seed = static_cast<std::uint32_t>(seeded_generator()());
  for (int size = 1; size <= 8; ++size) exchange_at_random(size, {first_device}, seed);
}

}  // namespace
}  // namespace hipvmm::test

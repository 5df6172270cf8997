// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "kernels/kernels.hpp"
#include "support/device_memory.hpp"
#include "support/devices.hpp"

using namespace hipvmm;
using namespace hipvmm::test;

TEST_CASE("growable_device_vector: grows while a kernel works on its elements") {
  const stream working{first_device};
  const stream growing{first_device};
  const pinned_memory words{2 * sizeof(unsigned)};
  auto* const stop = reinterpret_cast<volatile unsigned*>(words.get());
  auto* const rounds = reinterpret_cast<unsigned*>(words.get()) + 1;
  *stop = 0;
  *rounds = 0;

  constexpr std::size_t first = 100'000;
  growable_device_vector<unsigned> vector{first_device};
  vector.append(std::vector<unsigned>(first, 0U), working);
  working.synchronize();
  unsigned* const base = vector.data();
  REQUIRE(launch_count_until(base, first, stop, rounds, working.get()) == 0);

  const std::vector<unsigned> block(1 << 20, 7U);
  for (int step = 0; step < 32; ++step) vector.append(block, growing);
  growing.synchronize();
  const bool still_running = !working.is_done();
  *stop = 1;
  working.synchronize();

  CHECK(still_running);
  CHECK(vector.data() == base);
  const std::vector<unsigned> found = vector.copy_to_host(growing);
  REQUIRE(found.size() == first + 32 * block.size());
  const auto end = found.begin() + first;
  CHECK(*rounds > 0);
  CHECK(std::all_of(found.begin(), end, [&](unsigned value) { return value == *rounds; }));
  CHECK(std::all_of(end, found.end(), [](unsigned value) { return value == 7; }));
}

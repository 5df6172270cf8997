// SPDX-License-Identifier: MIT
// Lanes of an AMD GPU take slots: the code, run by a thread for each active lane of a wave of 32
// or of 64: the compiler's builtins are functions here, by which the threads meet.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace {

/// The active lanes of a wave, and the value of each for the others.
struct wave_in_step {
  explicit wave_in_step(std::vector<int> active, int lane_count)
      : lanes{std::move(active)}, size{lane_count}, in_step{static_cast<int>(lanes.size())} {}

  std::vector<int> lanes;
  int size;
  std::barrier<> in_step;
  std::array<unsigned, 64> shown{};
};

thread_local wave_in_step* own_wave = nullptr;
thread_local int own_lane = 0;
std::size_t atomics = 0;

unsigned lanes_below(unsigned half, int lane) {
  const unsigned below = lane <= 0 ? 0U : lane >= 32 ? ~0U : (1U << lane) - 1;
  return static_cast<unsigned>(__builtin_popcount(half & below));
}

// The compiler's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
unsigned long long __builtin_amdgcn_uicmp(unsigned a, unsigned b, int) {
  own_wave->shown[static_cast<std::size_t>(own_lane)] = a != b;
  own_wave->in_step.arrive_and_wait();
  unsigned long long mask = 0;
  for (const int lane : own_wave->lanes)
    if (own_wave->shown[static_cast<std::size_t>(lane)] != 0) mask |= 1ULL << lane;
  own_wave->in_step.arrive_and_wait();
  return mask;
}

// Reading a lane that is not active gives anything: here all ones.
int __builtin_amdgcn_readlane(int value, int lane) {
  own_wave->shown[static_cast<std::size_t>(own_lane)] = static_cast<unsigned>(value);
  own_wave->in_step.arrive_and_wait();
  const bool active = std::find(own_wave->lanes.begin(), own_wave->lanes.end(),
                                lane % own_wave->size) != own_wave->lanes.end();
  const unsigned result =
      active ? own_wave->shown[static_cast<std::size_t>(lane % own_wave->size)] : ~0U;
  own_wave->in_step.arrive_and_wait();
  return static_cast<int>(result);
}

unsigned __builtin_amdgcn_mbcnt_lo(unsigned mask, unsigned base) {
  return base + lanes_below(mask, own_lane);
}
unsigned __builtin_amdgcn_mbcnt_hi(unsigned mask, unsigned base) {
  return base + lanes_below(mask, own_lane - 32);
}

unsigned long long counted_add(unsigned long long* counter, unsigned long long value) {
  __atomic_fetch_add(&atomics, 1, __ATOMIC_RELAXED);
  return __atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

}  // namespace

// As a compiler of AMD's device code sees the header, in a namespace of its own.
#define __HIP_DEVICE_COMPILE__ 1
#define __hip_atomic_fetch_add(counter, value, order, scope) counted_add(counter, value)
#define HIPVMM_DEVICE
#define asm(...)  // only hides a value from the optimiser
#define hipvmm hipvmm_in_waves
#include <hipvmm/container/append_slots.hpp>
#undef hipvmm
#undef asm
#undef HIPVMM_DEVICE
#undef __HIP_DEVICE_COMPILE__
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

using hipvmm_in_waves::detail::take_slot;
using hipvmm_in_waves::detail::take_slots;

/// Calls `take` with each of the lanes in a thread of its own; returns the slot of each.
template <typename Take>
std::vector<unsigned long long> taken_by(const std::vector<int>& lanes, int size, Take take) {
  wave_in_step wave{lanes, size};
  std::vector<unsigned long long> result(lanes.size());
  std::vector<std::thread> threads;
  atomics = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i)
    threads.emplace_back([&wave, &result, &take, i] {
      own_wave = &wave;
      own_lane = wave.lanes[i];
      result[i] = take(wave.lanes[i]);
    });
  for (std::thread& each : threads) each.join();
  return result;
}

/// Sets of active lanes: all, one at either end, some without order, the upper half.
std::vector<std::vector<int>> sets_of_lanes(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> some;
  for (const int lane : all)
    if (lane % 7 == 3 || lane == size - 1 || lane == size / 2) some.push_back(lane);
  return {all, {0}, {size - 1}, some, {all.begin() + size / 2, all.end()}};
}

TEST_CASE("take_slot: lanes of waves of 32 and 64 get consecutive slots by one atomic") {
  for (const int size : {32, 64})
    for (const std::vector<int>& lanes : sets_of_lanes(size)) {
      CAPTURE(size);
      CAPTURE(lanes.size());
      unsigned long long counter = 5;
      const auto slots = taken_by(lanes, size, [&](int) { return take_slot(&counter); });
      for (std::size_t i = 0; i < slots.size(); ++i) CHECK(slots[i] == 5 + i);
      CHECK(counter == 5 + lanes.size());
      CHECK(atomics == 1);
    }
}

TEST_CASE("take_slot: lanes of waves of 32 and 64 that take from three counters keep them apart") {
  for (const int size : {32, 64})
    for (const std::vector<int>& lanes : sets_of_lanes(size)) {
      CAPTURE(size);
      CAPTURE(lanes.size());
      std::array<unsigned long long, 3> counters{};
      const auto slots = taken_by(lanes, size, [&](int lane) {
        return take_slot(&counters[static_cast<std::size_t>(lane % 3)]);
      });
      std::array<unsigned long long, 3> expected{};
      for (std::size_t i = 0; i < lanes.size(); ++i)
        CHECK(slots[i] == expected[static_cast<std::size_t>(lanes[i] % 3)]++);
      CHECK(counters == expected);
      CHECK(atomics == static_cast<std::size_t>(
                           std::count_if(expected.begin(), expected.end(),
                                         [](unsigned long long count) { return count != 0; })));
    }
}

TEST_CASE("take_slots: blocks of lanes of waves of 32 and 64 follow one another") {
  for (const int size : {32, 64})
    for (const std::vector<int>& lanes : sets_of_lanes(size)) {
      CAPTURE(size);
      CAPTURE(lanes.size());
      // Above 32 bits, so that both halves count; some lanes take none.
      const auto length = [](int lane) {
        return static_cast<unsigned long long>(lane % 5) << (lane % 2 == 0 ? 0 : 33);
      };
      std::array<unsigned long long, 2> counters{1, 2};
      const auto firsts = taken_by(lanes, size, [&](int lane) {
        return take_slots(&counters[static_cast<std::size_t>(lane / 3 % 2)], length(lane));
      });
      std::array<unsigned long long, 2> expected{1, 2};
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        unsigned long long& next = expected[static_cast<std::size_t>(lanes[i] / 3 % 2)];
        CHECK(firsts[i] == next);
        next += length(lanes[i]);
      }
      CHECK(counters == expected);
    }
}

}  // namespace

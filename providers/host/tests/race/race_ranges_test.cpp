// SPDX-License-Identifier: MIT
#include "providers/host/race/race_ranges.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

#include "support/random_seed.hpp"

using hipvmm::host_provider::race_ranges;

namespace {

using ranges = race_ranges<int>;

std::string text_of(const ranges& all, std::uintptr_t start = 0, std::uintptr_t end = 1000) {
  std::string text;
  all.visit(start, end, [&text](std::uintptr_t first, std::uintptr_t last, int value) {
    text += std::to_string(first) + "-" + std::to_string(last) + "=" + std::to_string(value) + " ";
  });
  return text;
}

}  // namespace

TEST_CASE("race_ranges: a value takes the place of those below it and cuts its neighbours") {
  ranges all;
  all.put(10, 20, 1);
  all.put(30, 40, 2);
  all.put(15, 35, 3);
  CHECK(text_of(all) == "10-15=1 15-35=3 35-40=2 ");
}

TEST_CASE("race_ranges: no bytes take no value") {
  ranges all;
  all.put(10, 10, 1);
  CHECK(all.size() == 0);
}

TEST_CASE("race_ranges: what is seen is cut to the range, and nothing else is") {
  ranges all;
  all.put(10, 40, 1);
  CHECK(text_of(all, 20, 30) == "20-30=1 ");
  CHECK(text_of(all, 40, 50).empty());
  CHECK(text_of(all, 0, 10).empty());
  CHECK(all.size() == 1);
}

TEST_CASE("race_ranges: changing a part leaves the rest as it was") {
  ranges all;
  all.put(10, 40, 1);
  all.change(20, 30, [](std::uintptr_t, std::uintptr_t, int& value) { value = 2; });
  CHECK(text_of(all) == "10-20=1 20-30=2 30-40=1 ");
}

TEST_CASE("race_ranges: changing all fills the gaps first") {
  ranges all;
  all.put(10, 20, 1);
  all.put(30, 40, 2);
  all.change_all(5, 35, [](std::uintptr_t, std::uintptr_t, int& value) { value += 10; });
  CHECK(text_of(all) == "5-10=10 10-20=11 20-30=10 30-35=12 35-40=2 ");
}

TEST_CASE("race_ranges: erasing cuts at both ends") {
  ranges all;
  all.put(10, 40, 1);
  all.erase(20, 30);
  CHECK(text_of(all) == "10-20=1 30-40=1 ");
  all.erase_if([](int) { return true; });
  CHECK(all.size() == 0);
}

TEST_CASE("race_ranges: any sequence of changes leaves each byte the value of a plain map") {
  std::mt19937 random = hipvmm::test::seeded_generator();
  ranges all;
  std::map<std::uintptr_t, int> model;
  for (int step = 0; step < 3000; ++step) {
    const std::uintptr_t start = random() % 64;
    const std::uintptr_t end = start + random() % 16;
    const int value = static_cast<int>(random() % 4);
    switch (random() % 4) {
      case 0:
        all.put(start, end, value);
        for (std::uintptr_t at = start; at < end; ++at) model[at] = value;
        break;
      case 1:
        all.erase(start, end);
        for (std::uintptr_t at = start; at < end; ++at) model.erase(at);
        break;
      case 2:
        all.change(start, end,
                   [value](std::uintptr_t, std::uintptr_t, int& each) { each += value; });
        for (std::uintptr_t at = start; at < end; ++at) {
          if (model.contains(at)) model[at] += value;
        }
        break;
      default:
        all.change_all(start, end,
                       [value](std::uintptr_t, std::uintptr_t, int& each) { each += value; });
        for (std::uintptr_t at = start; at < end; ++at) model[at] += value;
    }
    std::map<std::uintptr_t, int> found;
    all.visit(0, 100, [&found](std::uintptr_t first, std::uintptr_t last, int each) {
      for (std::uintptr_t at = first; at < last; ++at) found[at] = each;
    });
    REQUIRE(found == model);
  }
}

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "managed_fixture.hpp"

using namespace hipvmm::test;

namespace {

constexpr int none = hipInvalidDeviceId;
using places = std::vector<int>;

// The same rules with one entry a page and no intervals.
struct model_page {
  bool read_mostly = false;
  bool coarse = false;
  int preferred = none;
  int prefetched = none;
  std::set<int> users;
};

bool all_of_pages(const std::vector<model_page>& pages, std::size_t first, std::size_t last,
                  bool model_page::*member) {
  return std::all_of(pages.begin() + static_cast<std::ptrdiff_t>(first),
                     pages.begin() + static_cast<std::ptrdiff_t>(last),
                     [member](const model_page& each) { return each.*member; });
}

int common_value(const std::vector<model_page>& pages, std::size_t first, std::size_t last,
                 int model_page::*member) {
  for (std::size_t i = first; i < last; ++i) {
    if (pages[i].*member != pages[first].*member) return none;
  }
  return pages[first].*member;
}

int common_coherency(const std::vector<model_page>& pages, std::size_t first, std::size_t last) {
  if (all_of_pages(pages, first, last, &model_page::coarse)) {
    return hipMemRangeCoherencyModeCoarseGrain;
  }
  for (std::size_t i = first; i < last; ++i) {
    if (pages[i].coarse) return hipMemRangeCoherencyModeIndeterminate;
  }
  return hipMemRangeCoherencyModeFineGrain;
}

places common_users(const std::vector<model_page>& pages, std::size_t first, std::size_t last) {
  places found;
  for (const int place : {0, 1, 2, cpu}) {
    bool everywhere = true;
    for (std::size_t i = first; i < last; ++i) everywhere &= pages[i].users.count(place) != 0;
    if (everywhere) found.push_back(place);
  }
  found.resize(4, none);
  return found;
}

void change(model_page& page_model, int action, int place) {
  switch (action) {
    case hipMemAdviseSetReadMostly:
    case hipMemAdviseUnsetReadMostly:
      page_model.read_mostly = action == hipMemAdviseSetReadMostly;
      break;
    case hipMemAdviseSetPreferredLocation:
    case hipMemAdviseUnsetPreferredLocation:
      page_model.preferred = action == hipMemAdviseSetPreferredLocation ? place : none;
      break;
    case hipMemAdviseSetAccessedBy:
      page_model.users.insert(place);
      break;
    case hipMemAdviseUnsetAccessedBy:
      page_model.users.erase(place);
      break;
    case hipMemAdviseSetCoarseGrain:
    case hipMemAdviseUnsetCoarseGrain:
      page_model.coarse = action == hipMemAdviseSetCoarseGrain;
      break;
    default:
      page_model.prefetched = place;
      break;
  }
}

}  // namespace

TIDY_CASE("hipMemRangeGetAttribute: fresh memory has no advice") {
  const managed some{2 * page};
  CHECK(attribute(hipMemRangeAttributeReadMostly, some.at(), 2 * page) == 0);
  CHECK(attribute(hipMemRangeAttributePreferredLocation, some.at(), 2 * page) == none);
  CHECK(attribute(hipMemRangeAttributeLastPrefetchLocation, some.at(), 2 * page) == none);
  CHECK(attribute(hipMemRangeAttributeCoherencyMode, some.at(), 2 * page) ==
        hipMemRangeCoherencyModeFineGrain);
  CHECK(accessed_by(some.at(), 2 * page) == places{none, none, none, none});
}

TIDY_CASE("hipMemRangeGetAttribute: mapped memory is coarse-grained") {
  const mapped chunk{granule};
  CHECK(attribute(hipMemRangeAttributeCoherencyMode, chunk.at(), granule) ==
        hipMemRangeCoherencyModeCoarseGrain);
}

TIDY_CASE("hipMemRangeGetAttribute: memory of every other kind has a coherency") {
  const allocation device{page};
  const pinned host{page};
  void* apart = nullptr;
  REQUIRE(hipHostMalloc(&apart, page, hipHostMallocNonCoherent) == hipSuccess);
  constexpr auto coherency = hipMemRangeAttributeCoherencyMode;
  CHECK(attribute(coherency, device.at(8), 64) == hipMemRangeCoherencyModeCoarseGrain);
  CHECK(attribute(coherency, host.at(), page) == hipMemRangeCoherencyModeFineGrain);
  CHECK(attribute(coherency, apart, page) == hipMemRangeCoherencyModeCoarseGrain);
  CHECK(hipHostFree(apart) == hipSuccess);
  int value = 99;
  check_refusals({
      {"beyond the end",
       hipMemRangeGetAttribute(&value, sizeof(value), coherency, device.at(), page + 1)},
      {"pageable memory",
       hipMemRangeGetAttribute(&value, sizeof(value), coherency, &value, sizeof(value))},
      {"another attribute",
       hipMemRangeGetAttribute(&value, sizeof(value), hipMemRangeAttributePreferredLocation,
                               device.at(), page)},
  });
}

TIDY_CASE("hipMemAdvise: each advice is reported for every place and undone") {
  const managed some{page};
  for (const int place : {0, 1, 2, cpu}) {
    CAPTURE(place);
    advise(some.at(), page, hipMemAdviseSetPreferredLocation, place);
    CHECK(attribute(hipMemRangeAttributePreferredLocation, some.at(), page) == place);
    advise(some.at(), page, hipMemAdviseUnsetPreferredLocation, place);
    CHECK(attribute(hipMemRangeAttributePreferredLocation, some.at(), page) == none);
    advise(some.at(), page, hipMemAdviseSetAccessedBy, place);
    CHECK(accessed_by(some.at(), page, 1) == places{place});
    advise(some.at(), page, hipMemAdviseUnsetAccessedBy, place);
    CHECK(accessed_by(some.at(), page, 1) == places{none});
  }
}

TIDY_CASE("hipMemAdvise: one advice leaves the others alone") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetReadMostly);
  advise(some.at(), page, hipMemAdviseSetAccessedBy, 1);
  advise(some.at(), page, hipMemAdviseSetPreferredLocation, 2);
  CHECK(attribute(hipMemRangeAttributeReadMostly, some.at(), page) == 1);
  CHECK(accessed_by(some.at(), page, 1) == places{1});
  CHECK(attribute(hipMemRangeAttributeLastPrefetchLocation, some.at(), page) == none);
}

TIDY_CASE("hipMemAdvise: a range is rounded outwards to whole pages") {
  struct row {
    std::size_t offset;
    std::size_t bytes;
    std::size_t pages;
  };
  for (const row& each : {row{page / 4, page / 2, 1}, row{page / 2, page, 2},
                          row{page / 2, 2 * page, 3}, row{page - 1, 2, 2}, row{page, 1, 0}}) {
    CAPTURE(each.offset);
    CAPTURE(each.bytes);
    const managed some{3 * page};
    advise(some.at(each.offset), each.bytes, hipMemAdviseSetReadMostly);
    std::size_t advised = 0;
    while (advised < 3 && attribute(hipMemRangeAttributeReadMostly, some.at(advised * page), 1)) {
      ++advised;
    }
    CHECK(advised == each.pages);
  }
}

TIDY_CASE("hipMemRangeGetAttribute: accessed by fills the slots it is given, devices first") {
  const managed some{page};
  for (const int place : {cpu, 2, 0}) advise(some.at(), page, hipMemAdviseSetAccessedBy, place);
  CHECK(accessed_by(some.at(), page, 4) == places{0, 2, cpu, none});
  CHECK(accessed_by(some.at(), page, 2) == places{0, 2});
}

TIDY_CASE("hipMemRangeGetAttributes: each answer goes to its place") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetReadMostly);
  advise(some.at(), page, hipMemAdviseSetPreferredLocation, 1);
  advise(some.at(), page, hipMemAdviseSetAccessedBy, 2);
  REQUIRE(hipMemPrefetchAsync(some.at(), page, cpu, nullptr) == hipSuccess);
  std::array<int, 3> single{99, 99, 99};
  std::array<int, 2> users{99, 99};
  std::array<void*, 4> data{&single[0], users.data(), &single[1], &single[2]};
  std::array<std::size_t, 4> sizes{4, 8, 4, 4};
  std::array wanted{hipMemRangeAttributeReadMostly, hipMemRangeAttributeAccessedBy,
                    hipMemRangeAttributePreferredLocation,
                    hipMemRangeAttributeLastPrefetchLocation};
  REQUIRE(hipMemRangeGetAttributes(data.data(), sizes.data(), wanted.data(), 4, some.at(), page) ==
          hipSuccess);
  CHECK(single == std::array<int, 3>{1, 1, cpu});
  CHECK(users == std::array<int, 2>{2, none});
}

TIDY_CASE("hipMemAdvise: random advice on random ranges agrees with a page by page model") {
  constexpr unsigned seed = 20240611;
  CAPTURE(seed);
  std::mt19937 random{seed};
  constexpr std::size_t count = 16;
  const managed some{count * page};
  std::vector<model_page> model(count);
  constexpr int prefetch = 0;
  constexpr std::array actions{1, 2, 3, 4, 5, 6, 100, 101, prefetch};
  for (int step = 0; step < 4000; ++step) {
    CAPTURE(step);
    const std::size_t first_byte = random() % (count * page);
    const std::size_t bytes = 1 + random() % (count * page - first_byte);
    const std::size_t first = first_byte / page;
    const std::size_t last = (first_byte + bytes + page - 1) / page;
    const int action = actions[random() % actions.size()];
    const int place = static_cast<int>(random() % 4) - 1;
    std::byte* const start = some.at(first_byte);
    if (action == prefetch) {
      REQUIRE(hipMemPrefetchAsync(start, bytes, place, nullptr) == hipSuccess);
    } else {
      advise(start, bytes, static_cast<hipMemoryAdvise>(action), place);
    }
    for (std::size_t i = first; i < last; ++i) change(model[i], action, place);

    const std::size_t from = random() % count;
    const std::size_t to = from + 1 + random() % (count - from);
    std::byte* const asked = some.at(from * page);
    const std::size_t length = (to - from) * page;
    REQUIRE(attribute(hipMemRangeAttributeReadMostly, asked, length) ==
            (all_of_pages(model, from, to, &model_page::read_mostly) ? 1 : 0));
    REQUIRE(attribute(hipMemRangeAttributePreferredLocation, asked, length) ==
            common_value(model, from, to, &model_page::preferred));
    REQUIRE(attribute(hipMemRangeAttributeLastPrefetchLocation, asked, length) ==
            common_value(model, from, to, &model_page::prefetched));
    REQUIRE(attribute(hipMemRangeAttributeCoherencyMode, asked, length) ==
            common_coherency(model, from, to));
    REQUIRE(accessed_by(asked, length) == common_users(model, from, to));
  }
  REQUIRE(hipDeviceSynchronize() == hipSuccess);
}

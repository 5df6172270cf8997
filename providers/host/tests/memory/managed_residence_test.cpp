// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include "managed_fixture.hpp"

using namespace hipvmm::test;

// Devices 0 and 1 reach each other; nothing reaches device 2.
namespace {

using places = std::vector<int>;

void prefetch(const managed& memory, std::size_t bytes, int place) {
  REQUIRE(hipMemPrefetchAsync(memory.at(), bytes, place, nullptr) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
}

void write_by(int device, const managed& memory, std::size_t bytes = page) {
  REQUIRE(hipSetDevice(device) == hipSuccess);
  REQUIRE(hipMemset(memory.at(), 1, bytes) == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
}

void read_by(int device, const managed& memory, std::size_t bytes = page) {
  const allocation target{bytes, device};
  REQUIRE(hipSetDevice(device) == hipSuccess);
  REQUIRE(hipMemcpy(target.at(), memory.at(), bytes, hipMemcpyDeviceToDevice) == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
}

}  // namespace

TIDY_CASE("managed memory: fresh pages are on the host") {
  const managed some{page};
  CHECK(residence(some.at()) == places{cpu});
  int pageable = 0;
  CHECK(residence(&pageable).empty());
}

TIDY_CASE("hipMemPrefetchAsync: pages move to the device, whole pages and no others") {
  const managed some{3 * page};
  REQUIRE(hipMemPrefetchAsync(some.at(page + 5), 1, 1, nullptr) == hipSuccess);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(residence(some.at(page - 1)) == places{cpu});
  CHECK(residence(some.at(page)) == places{1});
  CHECK(residence(some.at(2 * page)) == places{cpu});
  prefetch(some, 3 * page, cpu);
  CHECK(residence(some.at(page)) == places{cpu});
}

TIDY_CASE("hipMemPrefetchAsync: pages move in stream order, the attribute changes at once") {
  const managed some{page};
  const stream work;
  held_streams held;
  REQUIRE(hipMemPrefetchAsync(some.at(), page, 1, work.get()) == hipSuccess);
  CHECK(attribute(hipMemRangeAttributeLastPrefetchLocation, some.at(), page) == 1);
  CHECK(residence(some.at()) == places{cpu});
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  held.release();
  REQUIRE(work.wait() == hipSuccess);
  CHECK(residence(some.at()) == places{1});
}

TIDY_CASE("hipMemPrefetchAsync: read mostly pages are copied, and a write leaves one") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetReadMostly);
  prefetch(some, page, 0);
  prefetch(some, page, 2);
  CHECK(residence(some.at()) == places{0, 2, cpu});
  write_by(2, some);
  CHECK(residence(some.at()) == places{2});
}

TIDY_CASE("hipMemAdvise: unset read mostly keeps the copy at the preferred location") {
  const managed some{page};
  for (const int preferred : {1, cpu}) {
    CAPTURE(preferred);
    advise(some.at(), page, hipMemAdviseSetReadMostly);
    prefetch(some, page, 1);
    prefetch(some, page, cpu);
    advise(some.at(), page, hipMemAdviseSetPreferredLocation, preferred);
    advise(some.at(), page, hipMemAdviseUnsetReadMostly);
    CHECK(residence(some.at()) == places{preferred});
  }
}

TIDY_CASE("hipMemset: pages move to the device that writes them") {
  const managed some{3 * page};
  write_by(1, some, page + 1);
  CHECK(residence(some.at()) == places{1});
  CHECK(residence(some.at(page)) == places{1});
  CHECK(residence(some.at(2 * page)) == places{cpu});
  write_by(2, some);
  CHECK(residence(some.at()) == places{2});
}

TIDY_CASE("hipMemcpy: pages move to the device that reads them") {
  const managed some{page};
  read_by(2, some);
  CHECK(residence(some.at()) == places{2});
}

TIDY_CASE("hipMemcpy: read mostly pages are duplicated for the device that reads them") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetReadMostly);
  read_by(1, some);
  CHECK(residence(some.at()) == places{1, cpu});
}

TIDY_CASE("hipMemcpy: overlapping managed memory copied from the end moves as a whole") {
  constexpr std::size_t bytes = 700 * page;  // more than two slices of a copy
  const managed some{bytes};
  std::vector<std::byte> expected = counted_bytes(bytes - page);
  std::copy(expected.begin(), expected.end(), some.at());
  REQUIRE(hipMemcpy(some.at(page), some.at(), bytes - page, hipMemcpyDefault) == hipSuccess);
  CHECK(equal(some.at(page), expected));
  std::size_t moved = 0;
  for (std::size_t at = 0; at < bytes; at += page) {
    moved += residence(some.at(at)) == places{0} ? 1 : 0;
  }
  CHECK(moved == 700);
}

TIDY_CASE("hipMemAdvise: pages stay at a preferred location that the device can reach") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetPreferredLocation, 1);
  CHECK(residence(some.at()) == places{cpu});
  prefetch(some, page, 1);
  write_by(0, some);
  CHECK(residence(some.at()) == places{1});
  write_by(2, some);
  CHECK(residence(some.at()) == places{2});
}

TIDY_CASE("hipMemAdvise: pages preferred on the host stay there for every device") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetPreferredLocation, cpu);
  for (const int device : {0, 1, 2}) {
    write_by(device, some);
    CHECK(residence(some.at()) == places{cpu});
  }
}

TIDY_CASE("hipMemAdvise: a device that accesses pages by mapping them leaves them where they are") {
  const managed some{page};
  advise(some.at(), page, hipMemAdviseSetAccessedBy, 0);
  write_by(0, some);
  CHECK(residence(some.at()) == places{cpu});
  write_by(1, some);
  read_by(0, some);
  CHECK(residence(some.at()) == places{1});
  prefetch(some, page, 2);
  read_by(0, some);
  CHECK(residence(some.at()) == places{0});
}

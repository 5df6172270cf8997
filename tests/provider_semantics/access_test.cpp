// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <csignal>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/process/child_process.hpp"

using namespace hipvmm::test;

namespace {

hipError_t set(const std::byte* at, std::size_t bytes, const hipMemAccessDesc& wanted,
               std::size_t count = 1) {
  return hipMemSetAccess(const_cast<std::byte*>(at), bytes, &wanted, count);
}

hipMemAccessDesc at_location(int type) {
  hipMemAccessDesc wanted = open_to(0);
  wanted.location.type = no_such<hipMemLocationType>(type);
  return wanted;
}

unsigned long long rights_at(std::byte* at, int device = 0) {
  unsigned long long flags = 77;
  const hipMemLocation where{hipMemLocationTypeDevice, device};
  REQUIRE(hipMemGetAccess(&flags, &where, at) == hipSuccess);
  return flags;
}

hipError_t get(std::byte* at, int device = 0, int type = hipMemLocationTypeDevice) {
  unsigned long long flags = 0;
  const hipMemLocation where{no_such<hipMemLocationType>(type), device};
  return hipMemGetAccess(&flags, &where, at);
}

// A copy that breaks a right: refused at once, or by the next wait, which ends the context.
hipError_t copy_and_wait(void* to, const void* from) {
  const hipError_t code = hipMemcpyAsync(to, from, 16, hipMemcpyDefault, nullptr);
  return code != hipSuccess ? code : hipStreamSynchronize(nullptr);
}

constexpr const char* copies_to_read_only = "copies to memory it may only read";
constexpr const char* copies_to_unopened = "copies to memory nobody opened";
constexpr const char* copies_from_unopened = "copies from memory nobody opened";
constexpr const char* touches_with_host_code = "touches a chunk with host code";
constexpr const char* fills_unopened = "fills memory nobody opened";

}  // namespace

TEST_CASE("access: its arguments") {
  const addresses place{4};
  const chunk two{2};
  const chunk one;
  REQUIRE(hipMemMap(place.at(0), 2 * granule(), 0, two.get(), 0) == hipSuccess);
  REQUIRE(hipMemMap(place.at(2), granule(), 0, one.get(), 0) == hipSuccess);
  const std::size_t unit = granule();
  check_rules({
      {"half of a mapping", [&] { return set(place.at(0), unit, open_to(0)); }},
      {"its other half", [&] { return set(place.at(1), unit, open_to(0)); }},
      {"where nothing is", [&] { return set(place.at(3), unit, open_to(0)); }},
      {"and where nothing is", [&] { return set(place.at(2), 2 * unit, open_to(0)); }},
      {"no such device", [&] { return set(place.at(2), unit, open_to(no_device)); }},
      {"device -1", [&] { return set(place.at(2), unit, open_to(-1)); }},
      {"write only",
       [&] { return set(place.at(2), unit, open_to(0, no_such<hipMemAccessFlags>(2))); }},
      {"no location", [&] { return set(place.at(2), unit, at_location(0)); }},
      {"no entry", [&] { return set(place.at(2), unit, open_to(0), 0); }},
      {"no bytes", [&] { return set(place.at(2), 0, open_to(0)); }},
      {"null", [&] { return set(nullptr, unit, open_to(0)); }},
      {"no entries at all", [&] { return hipMemSetAccess(place.at(2), unit, nullptr, 1); }},
      {"the last mapping alone", [&] { return set(place.at(2), unit, open_to(0)); }, hipSuccess},
      {"both mappings", [&] { return set(place.at(0), 3 * unit, open_to(0)); }, hipSuccess},
      {"none", [&] { return set(place.at(0), 3 * unit, open_to(0, hipMemAccessFlagsProtNone)); },
       hipSuccess},
      {"read only",
       [&] { return set(place.at(0), 3 * unit, open_to(0, hipMemAccessFlagsProtRead)); },
       hipSuccess},
  });
  CHECK(hipMemUnmap(place.at(0), 3 * granule()) == hipSuccess);
}

TEST_CASE("access: is told of every mapped byte") {
  const mapped one{1, 1};
  check_rules({
      {"the first byte", [&] { return get(one.at()); }, hipSuccess},
      {"a byte inside", [&] { return get(one.at(0, 4097)); }, hipSuccess},
      {"where nothing is", [&] { return get(one.at(1)); }},
      {"no such device", [&] { return get(one.at(), no_device); }},
      {"no location", [&] { return get(one.at(), 0, 0); }},
      {"null", [&] { return get(nullptr); }},
  });
}

TEST_CASE("access: a new mapping is open to nobody") {
  const mapped one{1};
  CHECK(rights_at(one.at()) == hipMemAccessFlagsProtNone);
}

TEST_CASE("access: is what was set last") {
  mapped one{1};
  for (const hipMemAccessFlags flags :
       {hipMemAccessFlagsProtReadWrite, hipMemAccessFlagsProtRead, hipMemAccessFlagsProtNone}) {
    one.open(0, flags);
    CHECK(rights_at(one.at()) == static_cast<unsigned long long>(flags));
  }
}

TEST_CASE("access: of one mapping leaves its neighbour's") {
  mapped two{2};
  two.open();
  REQUIRE(set(two.at(1), granule(), open_to(0, hipMemAccessFlagsProtRead)) == hipSuccess);
  CHECK(rights_at(two.at(0)) == hipMemAccessFlagsProtReadWrite);
  CHECK(rights_at(two.at(1)) == hipMemAccessFlagsProtRead);
}

TEST_CASE("access: a mapping made anew is open to nobody") {
  const addresses place{1};
  const chunk one;
  REQUIRE(hipMemMap(place.at(0), granule(), 0, one.get(), 0) == hipSuccess);
  REQUIRE(set(place.at(0), granule(), open_to(0)) == hipSuccess);
  REQUIRE(hipMemUnmap(place.at(0), granule()) == hipSuccess);
  REQUIRE(hipMemMap(place.at(0), granule(), 0, one.get(), 0) == hipSuccess);
  CHECK(rights_at(place.at(0)) == hipMemAccessFlagsProtNone);
  CHECK(hipMemUnmap(place.at(0), granule()) == hipSuccess);
}

TEST_CASE("access: memory that may only be read is copied from") {
  mapped one{1};
  one.open();
  REQUIRE(fill_and_wait(one.at(), 0x42, granule()) == hipSuccess);
  one.open(0, hipMemAccessFlagsProtRead);
  CHECK(byte_at(one.at(0, 100)) == 0x42);
}

TEST_CASE("access: a copy or fill that breaks a right is refused") {
  for (const char* name :
       {copies_to_read_only, copies_to_unopened, copies_from_unopened, fills_unopened}) {
    check_child(name);
  }
}

TEST_CASE("access: host code touches what a device may, but for CUDA") {
  const child_result child = run_child(touches_with_host_code);
  CAPTURE(child.output);
  CAPTURE(child.status);
  CHECK((like_cuda() ? child.status == 128 + SIGSEGV : passed(child)));
}

HIPVMM_CHILD("touches a chunk with host code") {
  mapped one{1};
  one.open();
  *one.at() = std::byte{1};
  CHECK(*one.at() == std::byte{1});
}

// Children of their own: a driver that lets the copy begin ends the context with it.
HIPVMM_CHILD("copies to memory it may only read") {
  mapped one{1};
  one.open(0, hipMemAccessFlagsProtRead);
  const unsigned char bytes[16] = {};
  check_rules({{"copy", [&] { return copy_and_wait(one.at(), bytes); }}});
}

HIPVMM_CHILD("copies to memory nobody opened") {
  mapped one{1};
  const unsigned char bytes[16] = {};
  check_rules({{"copy", [&] { return copy_and_wait(one.at(), bytes); }}});
}

HIPVMM_CHILD("copies from memory nobody opened") {
  mapped one{1};
  unsigned char bytes[16] = {};
  check_rules({{"copy", [&] { return copy_and_wait(bytes, one.at()); }}});
}

HIPVMM_CHILD("fills memory nobody opened") {
  mapped one{1};
  check_rules({{"fill", [&] { return hipMemset(one.at(), 1, 16); }}});
}

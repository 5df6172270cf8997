// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/address_reservation.hpp>

#include <doctest/doctest.h>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "support/child_process.hpp"
#include "support/devices.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

TEST_CASE("address_reservation: a hint to free addresses is followed") {
  void* freed = nullptr;
  {
    const address_reservation first{4 * granule()};
    freed = first.get();
  }
  CHECK(address_reservation{4 * granule(), 0, freed}.get() == freed);
}

TEST_CASE("child: a reservation larger than the address space" * doctest::skip()) {
  try {
    const address_reservation reservation{128 * MiB};
    FAIL("more addresses than there are");
  } catch (const out_of_memory& error) {
    CHECK(error.resource() == exhausted::addresses);
    CHECK(error.bytes_requested() == 128 * MiB);
  }
}

TEST_CASE("address_reservation: a lack of addresses throws out_of_memory that says so") {
  const child_result child = run_case_in_child("child: a reservation larger than the address space",
                                               {"HIPVMM_HOST_ADDRESS_SPACE=64MiB"});
  CHECK_MESSAGE(passed(child), child.output);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

// SPDX-License-Identifier: MIT
// The library's messages on a device whose runtime has no virtual memory management.
#include <hipvmm/region/region.hpp>
#include <hipvmm/region/retained_chunk.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

constexpr const char* reason = "device 0 offers no virtual memory management";
constexpr std::size_t some_bytes = std::size_t{2} << 20;

HIPVMM_TEST_CASE_IN(
    "without virtual memory: granularity_of throws unsupported and names the device",
    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  CHECK_THROWS_WITH_AS(static_cast<void>(granularity_of(first_device)), doctest::Contains(reason),
                       unsupported);
}

HIPVMM_TEST_CASE_IN("without virtual memory: a reservation throws unsupported and names the device",
                    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  CHECK_THROWS_WITH_AS(address_reservation{some_bytes}, doctest::Contains(reason), unsupported);
}

HIPVMM_TEST_CASE_IN(
    "without virtual memory: a region throws unsupported and names what does not need it",
    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  for (const char* part :
       {"which offers no virtual memory", "growable_device_vector or vmm_pool_resource"})
    CHECK_THROWS_WITH_AS((region{first_device, some_bytes}), doctest::Contains(part), unsupported);
}

HIPVMM_TEST_CASE_IN("without virtual memory: no chunk is retained",
                    {"HIPVMM_HOST_PROFILE=rocm-5.7"}) {
  const device_allocation plain{first_device, some_bytes};
  CHECK_THROWS_WITH_AS(static_cast<void>(retain_chunk(plain.get())), doctest::Contains(reason),
                       unsupported);
}

}  // namespace
}  // namespace hipvmm::test

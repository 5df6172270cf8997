// SPDX-License-Identifier: MIT
// Calls made in one way on every device, because some releases fail otherwise: each under a
// profile that shows it.
#include <hipvmm/vmm/shareable_handle.hpp>
#include "support/host/host_provider.hpp"
#include "vmm/vmm_test.hpp"

namespace hipvmm::test {
namespace {

HIPVMM_TEST_CASE_IN("access_map: the owner is granted behind its peers",
                    {"HIPVMM_HOST_PROFILE=rocm-7.14", "HIPVMM_HOST_PEERS=0-1,0-2"}) {
  // Of memory that the peer cannot reach, so that its entry fails; rocm-7.14 applies those before.
  access_map rights{device_ref{0}};
  rights.set(device_ref{1}, access_right::read_write);
  const physical_chunk chunk{device_ref{2}, granule()};
  const address_reservation reservation{granule()};
  const mapping map{reservation, 0, chunk};
  CHECK_THROWS_AS(rights.apply(map.get(), map.bytes()), hip_error);
  CHECK(get_access(map.get(), device_ref{0}) == access_right::none);
}

HIPVMM_TEST_CASE_IN("import_chunk: HIP puts the chunk down to the device that was named",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4", "HIPVMM_HOST_PEERS=0-1"}) {
  physical_chunk exported{device_ref{1}, granule(), handle_type::posix_fd};
  const shareable_handle handle{exported};
  REQUIRE(device_ref::current() == device_ref{0});
  const physical_chunk imported = import_chunk(handle, device_ref{1});
  hipMemAllocationProp told{};
  REQUIRE(hipMemGetAllocationPropertiesFromHandle(&told, imported.get()) == hipSuccess);
  CHECK(told.location.id == 1);
}

HIPVMM_TEST_CASE_IN("region: mappings are undone one by one so that the addresses come back",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4", "HIPVMM_HOST_PEERS=0-1"}) {
  const hipvmm_host_counters before = live_objects();
  const error_recorder reported;
  {
    region region{first_device, 16 * granule()};
    for (const std::size_t index : {0U, 1U, 2U}) region.commit(index * granule(), granule());
    region.decommit(0, 2 * granule());
  }
  CHECK(reported.count() == 0);
  CHECK(live_objects() == before);
}

}  // namespace
}  // namespace hipvmm::test

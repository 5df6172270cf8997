// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/shareable_handle.hpp>
#include "support/host/host_test.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

// Not the current device, so that switching devices is swept as well.
constexpr device_ref other_device{1};

TEST_CASE("physical_chunk: a construction that fails leaves nothing") {
  for (const handle_type type : {handle_type::none, handle_type::posix_fd})
    fault_sweep{"physical_chunk"}.run([type] {
      const physical_chunk value{other_device, granule(), type};
    });
}

TEST_CASE("all_reachable_peers: a failure of HIP is thrown") {
  fault_sweep{"all_reachable_peers"}.run(
      [] { CHECK(all_reachable_peers(first_device).entries().size() == 1); });
}

TEST_CASE("address_reservation: a construction that fails leaves nothing") {
  HIPVMM_SKIP_UNDER(alignment_ignored);
  fault_sweep{"address_reservation"}.run([] {
    const address_reservation value{4 * granule(), 4 * granule()};
  });
}

TEST_CASE("address_reservation: free that fails keeps the addresses") {
  fault_sweep{"free"}.run(
      [] { return address_reservation{granule()}; },
      [](address_reservation& reservation) { reservation.free(); },
      [](address_reservation& reservation) { CHECK_FALSE(reservation.empty()); },
      [](address_reservation& reservation) { CHECK(reservation.empty()); });
}

TEST_CASE("mapping: a construction that fails leaves nothing") {
  for (const map_check check : {map_check::trusted, map_check::verified})
    fault_sweep{"mapping"}.run([check] {
      const physical_chunk chunk{other_device, granule()};
      const address_reservation reservation{2 * granule()};
      const mapping value{reservation, granule(), chunk, check};
    });
}

using mapped_ptr = std::unique_ptr<mapped_chunk>;

mapped_ptr make_mapped(handle_type type) {
  return std::make_unique<mapped_chunk>(physical_chunk{first_device, granule(), type});
}

TEST_CASE("mapping: unmap that fails keeps the mapping") {
  fault_sweep{"unmap"}.run(
      [] { return make_mapped(handle_type::none); }, [](auto& mapped) { mapped.map.unmap(); },
      [](auto& mapped) {
        CHECK_FALSE(mapped.map.empty());
        CHECK(get_access(mapped.map.get(), first_device) == access_right::read_write);
      },
      [](auto& mapped) { CHECK(mapped.map.empty()); });
}

TEST_CASE("set_access: one that fails leaves the right as it was") {
  fault_sweep{"set_access"}.run(
      [] { return make_mapped(handle_type::none); },
      [](auto& mapped) {
        set_access(mapped.map.get(), mapped.map.bytes(), {first_device, access_right::read});
      },
      [](auto& mapped) {
        CHECK(get_access(mapped.map.get(), first_device) == access_right::read_write);
      },
      [](auto& mapped) {
        CHECK(get_access(mapped.map.get(), first_device) == access_right::read);
      });
}

TEST_CASE("access_map: a right that could not be checked is not recorded") {
  fault_sweep{"access_map::set"}.run(
      [] { return access_map{first_device}; },
      [](access_map& rights) { rights.set(other_device, access_right::read); },
      [](access_map& rights) { CHECK(rights.get(other_device) == access_right::none); },
      [](access_map& rights) { CHECK(rights.get(other_device) == access_right::read); });
}

TEST_CASE("shareable_handle: an export that fails leaves the chunk unshared") {
  fault_sweep{"export"}.run(
      [] {
        return physical_chunk{first_device, granule(), handle_type::posix_fd};
      },
      [](physical_chunk& chunk) { const shareable_handle handle{chunk}; },
      [](physical_chunk& chunk) { CHECK_FALSE(chunk.shared()); },
      [](physical_chunk& chunk) { CHECK(chunk.shared()); });
}

TEST_CASE("import_chunk: one that fails leaves nothing and the handle as it was") {
  fault_sweep{"import"}.run(
      [] {
        physical_chunk chunk{other_device, granule(), handle_type::posix_fd};
        return shareable_handle{chunk};
      },
      [](shareable_handle& handle) { static_cast<void>(import_chunk(handle, other_device)); },
      [](shareable_handle& handle) { CHECK_FALSE(handle.empty()); },
      [](shareable_handle& handle) { CHECK_FALSE(handle.empty()); });
}

HIPVMM_TEST_CASE_IN("mapping: one that fails unseen is found though the question fails once",
                    under("rocm-6.4", "virtual_memory=yes")) {
  const mapped_chunk there{physical_chunk{first_device, granule()}};
  const physical_chunk chunk{first_device, granule()};
  const hipvmm_host_counters before = live_objects();
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    const planned_fault fault{"hipMemGetAccess", fails ? 1U : 1000U, hipErrorUnknown};
    CHECK_THROWS_WITH_AS((mapping{there.reservation, 0, chunk, map_check::verified}),
                         doctest::Contains("hipMemMap failed"), hip_error);
    CHECK(fault.struck() == fails);
  }
  CHECK(live_objects() == before);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/mapping.hpp>

#include "support/device_bytes.hpp"
#include "vmm/address_reservation.hpp"
#include "vmm/vmm_test.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

struct four_granules {
  address_reservation reservation{4 * granule()};
  physical_chunk chunk{first_device, granule()};
};

TEST_CASE_FIXTURE(four_granules, "mapping: lies at its offset and covers the whole chunk") {
  const mapping map{reservation, 2 * granule(), chunk};
  CHECK(map.get() == advance(reservation.get(), 2 * granule()));
  CHECK(map.bytes() == granule());
}

TEST_CASE_FIXTURE(four_granules, "mapping: an empty chunk or reservation throws") {
  CHECK_THROWS_AS((mapping{reservation, 0, physical_chunk{}}), std::invalid_argument);
  CHECK_THROWS_AS((mapping{address_reservation{}, 0, chunk}), std::invalid_argument);
}

TEST_CASE_FIXTURE(four_granules, "mapping: a chunk that does not fit throws") {
  const physical_chunk large{first_device, 2 * granule()};
  CHECK_THROWS_AS((mapping{reservation, 3 * granule(), large}), std::invalid_argument);
  CHECK_THROWS_AS((mapping{reservation, 5 * granule(), chunk}), std::invalid_argument);
}

TEST_CASE("mapping: an address that is taken throws hip_error") {
  const address_reservation reservation{4 * granule()};
  const physical_chunk chunk{first_device, granule()};
  const mapping map{reservation, granule(), chunk};
  set_access(map.get(), map.bytes(), {first_device, access_right::read_write});
  const physical_chunk other{first_device, granule()};
  CHECK_THROWS_AS((mapping{reservation, granule(), other, map_check::verified}), hip_error);
  const physical_chunk large{first_device, 2 * granule()};
  CHECK_THROWS_AS((mapping{reservation, 0, large, map_check::verified}), hip_error);
  CHECK(get_access(map.get(), first_device) == access_right::read_write);
  CHECK_NOTHROW(mapping{reservation, 0, other, map_check::verified});
}

/// Maps four chunks at `reservation` and gives the device access from the first on.
void check_holds_mappings(const address_reservation& reservation) {
  const stream stream;
  const std::array<physical_chunk, 4> chunks{
      physical_chunk{first_device, granule()}, physical_chunk{first_device, granule()},
      physical_chunk{first_device, granule()}, physical_chunk{first_device, granule()}};
  std::array<mapping, 4> maps;
  for (std::size_t index = 0; index < maps.size(); ++index) {
    CAPTURE(index);
    maps[index] = mapping{reservation, index * granule(), chunks[index], map_check::verified};
    set_access(reservation.get(), (index + 1) * granule(),
               {first_device, access_right::read_write});
    write_bytes(stream, maps[index].get(), pattern(granule(), static_cast<std::uint32_t>(index)));
  }
  for (std::size_t index = 0; index < maps.size(); ++index) {
    CAPTURE(index);
    CHECK(read_bytes(stream, maps[index].get(), granule()) ==
          pattern(granule(), static_cast<std::uint32_t>(index)));
    CHECK_NOTHROW(maps[index].unmap());
  }
}

/// Has `maps` chunks of `bytes` bytes refused behind one of a granule. HIP 7.0 to 7.2 keep a record
/// of each (docs/guides/rocm.md, refused_map_stays).
void refuse_maps(const address_reservation& reservation, int maps, std::size_t bytes) {
  const physical_chunk chunk{first_device, granule()};
  const mapping map{reservation, 0, chunk};
  set_access(map.get(), map.bytes(), {first_device, access_right::read_write});
  const physical_chunk other{first_device, bytes};
  for (int i = 0; i < maps; ++i)
    CHECK_THROWS_AS((mapping{reservation, 0, other, map_check::verified}), hip_error);
}

TEST_CASE("mapping: addresses of refused maps are as good as any once they are freed") {
  for (const int maps : {1, 2, 3}) {
    for (const std::size_t granules : {1U, 2U, 3U}) {
      CAPTURE(maps);
      CAPTURE(granules);
      void* base = nullptr;
      {
        address_reservation reservation{4 * granule()};
        refuse_maps(reservation, maps, granules * granule());
        base = reservation.get();
        if (granules == 2) reservation.free();
        if (granules == 3) reservation = address_reservation{granule()};
      }
      check_holds_mappings(address_reservation{4 * granule(), 0, base});
    }
  }
}

TEST_CASE("mapping: a renewal ends what refused maps left in the addresses") {
  address_reservation reservation{4 * granule()};
  refuse_maps(reservation, 2, 2 * granule());
  address_reservation moved{std::move(reservation)};
  REQUIRE(detail::reclaim_pinned(moved) == detail::reclaim_result::done);
  check_holds_mappings(moved);
}

TEST_CASE_FIXTURE(four_granules, "mapping: access is lost on unmap, the bytes are not") {
  const stream stream;
  {
    const mapping map{reservation, 0, chunk};
    set_access(map.get(), map.bytes(), {first_device, access_right::read_write});
    write_bytes(stream, map.get(), pattern(granule(), 1));
  }
  const mapping again{reservation, 0, chunk};
  CHECK(get_access(again.get(), first_device) == access_right::none);
  set_access(again.get(), again.bytes(), {first_device, access_right::read_write});
  CHECK(read_bytes(stream, again.get(), granule()) == pattern(granule(), 1));
}

TEST_CASE_FIXTURE(four_granules, "mapping: unmap gives the address back and leaves it empty") {
  mapping map{reservation, 0, chunk};
  map.unmap();
  CHECK(map.empty());
  CHECK_NOTHROW(mapping{reservation, 0, chunk});
}

TEST_CASE("mapping: unmap of an empty one does nothing") {
  mapping map;
  CHECK_NOTHROW(map.unmap());
  CHECK(map.empty());
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

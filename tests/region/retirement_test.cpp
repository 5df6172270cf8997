// SPDX-License-Identifier: MIT
#include <hipvmm/region/retirement.hpp>

#include "region/region_test.hpp"

namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("retirement: a drain where nothing waits returns") {
  drain_retired_memory();
  CHECK(retired_memory().waiting == 0);
  CHECK(retired_memory().waiting_bytes == 0);
}

TEST_CASE("retirement: what a region held comes back and is counted") {
  const retirement_statistics before = retired_memory();
  region region{first_device, 8 * granule()};
  commit_as_granted(region, 0, 2 * granule());
  region.commit(4 * granule(), granule());
  region.retire();
  CHECK(region.committed_bytes() == 0);
  CHECK(region.base() == nullptr);
  drain_retired_memory();
  const retirement_statistics after = retired_memory();
  CHECK(after.waiting == 0);
  CHECK(after.returned == before.returned + 1);
  CHECK(after.returned_bytes == before.returned_bytes + 3 * granule());
}

TEST_CASE("retirement: an empty and a moved-from region retire nothing") {
  const retirement_statistics before = retired_memory();
  region region{first_device, 8 * granule()};
  region.retire();
  region.retire();
  CHECK(retired_memory().waiting == 0);
  CHECK(retired_memory().returned == before.returned);
}

TEST_CASE("retirement: a trim in a stream of another device with access releases") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream{peer};
  region region{first_device, 8 * granule()};
  region.grant(peer);
  for (std::size_t index = 0; index < 4; ++index) region.commit(index * granule(), granule());
  fill_async(stream, region.base(), 7, 4 * granule());
  region.trim(granule(), stream);
  CHECK(region.committed_bytes() == granule());
  drain_retired_memory();
  CHECK(read_bytes(stream, region.base(), granule()) == byte_vector(granule(), 7));
}

TEST_CASE_FIXTURE(
    region_of<8>,
    "retirement: work on what stays is whole when it shrinks and grows again and again") {
  region.commit(0, unit);
  write_tags(region, 0, 1, 1, stream);
  for (std::uint32_t round = 2; round < 20; ++round) {
    for (std::size_t index = 1; index < 6; ++index) region.commit(index * unit, unit);
    fill_async(stream, advance(region.base(), unit), static_cast<unsigned char>(round), 5 * unit);
    region.trim(unit * (round % 5 + 1), stream);
    check_tags(region, 0, 1, 1, stream);
  }
}

TEST_CASE("retirement: threads with regions of their own retire and grow at once") {
  std::vector<int> wrong(4, 0);
  in_threads(std::uint32_t{4}, [&wrong](std::uint32_t number) {
    const stream stream;
    for (std::uint32_t round = 0; round < 10; ++round) {
      region region{first_device, 8 * granule()};
      const auto value = static_cast<unsigned char>(number * 16 + round);
      for (const std::size_t size : {4U, 1U, 6U, 2U}) {
        for (std::size_t index = 0; index < size; ++index)
          region.commit(index * granule(), granule());
        fill_async(stream, region.base(), value, size * granule());
        region.trim((size - 1) * granule(), stream);
      }
      if (read_bytes(stream, region.base(), granule()) != byte_vector(granule(), value))
        ++wrong[number];
      fill_async(stream, region.base(), value, granule());
      region.retire();
      if (round % 4 == 0) drain_retired_memory();
    }
  });
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>
#include "core/descriptors.hpp"
#include "region/region_test.hpp"
#include "support/host/host_test.hpp"
#include "support/process/descriptor_limit.hpp"

TEST_SUITE_BEGIN("needs virtual memory");

namespace hipvmm::test {
namespace {

template <typename Operation>
void check_descriptors_are_named(Operation operation) {
  const hipvmm_host_counters before = live_objects();
  const auto error = thrown_by<out_of_memory>([&] { operation(); });
  CHECK(error.resource() == exhausted::descriptors);
  const std::string text = error.what();
  CAPTURE(text);
  CHECK(text.find("descriptor limit") != std::string::npos);
  CHECK(text.find(" returned hipError") != std::string::npos);
  CHECK(text.find("ulimit -n") != std::string::npos);
  CHECK(text.find("granule_bytes") != std::string::npos);
  CHECK(live_objects() == before);
}

TEST_CASE("shareable_handle: the descriptor's size is the chunk's") {
  physical_chunk chunk{first_device, 3 * granule(), handle_type::posix_fd};
  CHECK(detail::bytes_behind(shareable_handle{chunk}.get()) == 3 * granule());
}

TEST_CASE("physical_chunk: a lack of descriptors throws out_of_memory that says so") {
  // The first use of the provider opens the descriptors that it keeps open.
  const physical_chunk warm_up{first_device, granule()};
  const no_descriptors_left limit;
  check_descriptors_are_named([] {
    const physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  });
}

TEST_CASE("physical_chunk: an ordinary one costs no descriptor") {
  HIPVMM_SKIP_UNDER(chunks_take_descriptors);
  const physical_chunk warm_up{first_device, granule()};
  const no_descriptors_left limit;
  CHECK_NOTHROW(physical_chunk{first_device, granule()});
}

TEST_CASE("shareable_handle: a lack of descriptors throws out_of_memory that says so") {
  physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  const no_descriptors_left limit;
  check_descriptors_are_named([&] { const shareable_handle handle{chunk}; });
}

TEST_CASE("import_chunk: a lack of descriptors throws out_of_memory that says so") {
  physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  const shareable_handle handle{chunk};
  const no_descriptors_left limit;
  check_descriptors_are_named([&] { static_cast<void>(import_chunk(handle, first_device)); });
}

TEST_CASE("physical_chunk: a lack of descriptors is told with the limit and the number open") {
  const physical_chunk warm_up{first_device, granule()};
  const std::size_t open = lowest_free_descriptor();
  const no_descriptors_left limit;
  const auto error = thrown_by<out_of_memory>([&] {
    const physical_chunk chunk{first_device, granule(), handle_type::posix_fd};
  });
  const std::string number = std::to_string(open);
  CAPTURE(error.what());
  CHECK(std::string{error.what()}.find(number + " of the " + number + " descriptors") !=
        std::string::npos);
}

TEST_CASE("physical_chunk: what fails with two descriptors left failed for lack of them") {
  const physical_chunk warm_up{first_device, granule()};
  const descriptor_limit limit{lowest_free_descriptor() + 2};
  const planned_fault fault{"hipMemCreate", 1, hipErrorOutOfMemory};
  check_descriptors_are_named([] { const physical_chunk chunk{first_device, granule()}; });
}

TEST_CASE("physical_chunk: what fails with many descriptors left is told as what it is") {
  const planned_fault fault{"hipMemCreate", 1, hipErrorOutOfMemory};
  const auto error = thrown_by<out_of_memory>([&] {
    const physical_chunk chunk{first_device, granule()};
  });
  CHECK(error.resource() == exhausted::device_memory);
}

TEST_CASE("region: a lack of descriptors leaves what was committed") {
  region region{first_device, 4 * granule(), {.shareable = handle_type::posix_fd}};
  region.commit(0, granule());
  const no_descriptors_left limit;
  check_descriptors_are_named([&] { region.commit(granule(), granule()); });
  CHECK_THROWS_WITH_AS(region.commit(granule(), granule()),
                       doctest::Contains("that this process may have are open; the region holds"),
                       out_of_memory);
  CHECK(region.committed_bytes() == granule());
}

TEST_CASE("region: an export without descriptors for all exports no chunk") {
  const memory_tag tag;
  region region{first_device, 4 * granule(), {.shareable = handle_type::posix_fd, .tag = tag}};
  for (std::size_t i = 0; i < 4; ++i) region.commit(i * granule(), granule());
  {
    const descriptor_limit limit{limit_that_leaves(2)};
    CHECK_THROWS_AS(static_cast<void>(region.export_chunks()), out_of_memory);
    CHECK_THROWS_AS(static_cast<void>(region.export_range(0, 4 * granule())), out_of_memory);
  }
  CHECK(suspend(tag, keep::nothing) == 4 * granule());
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

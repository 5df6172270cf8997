// SPDX-License-Identifier: MIT
// The importer of a publication when HIP fails, and its limits of time.
#include <chrono>

#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/publication.hpp>
#include <hipvmm/region/region.hpp>
#include "ipc/published_region.hpp"
#include "ipc/socket.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("attached_region: what a failed refresh did not take does not wait for it") {
  constexpr std::size_t chunks = 64;  // more packets than are on their way to an importer at once
  const temporary_folder folder;
  const hipvmm::stream stream;
  region owned{first_device, chunks * granule(), shareable_chunks()};
  publication published{path_in(folder), first_device, chunks * granule(), {}, {.patience = 200ms}};
  attached_region seen{path_in(folder)};
  for (std::size_t i = 0; i < chunks; ++i) owned.commit(i * granule(), granule());
  published.announce(owned, chunks * granule(), stream);
  stream.synchronize();
  {
    const planned_faults failing{"hipMemMap nth=2 error=hipErrorOutOfMemory"};
    CHECK_THROWS_AS(seen.refresh(stream), hip_error);
  }
  std::this_thread::sleep_for(600ms);
  CHECK(published.importers() == 1);
  CHECK(seen.refresh(stream) == chunks * granule());
  CHECK(seen.is_open());
}

TEST_CASE("deadline_in: no limit overflows") {
  const auto now = std::chrono::steady_clock::now();
  CHECK(detail::deadline_in(std::chrono::milliseconds::max(), now) > now);
  for (const auto limit :
       {std::chrono::milliseconds{-9'300'000'000'000}, std::chrono::milliseconds::min()})
    CHECK(detail::deadline_in(limit, now) < now);
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdint>
#include <new>

#include <hipvmm/core/error.hpp>
#include "region/sleep/sleeping_regions.hpp"
#include "support/error_recorder.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_profile.hpp"
#include "support/host/host_provider.hpp"

// Sleep where the host has no memory.
namespace hipvmm::test {
namespace {

TEST_SUITE_BEGIN("needs virtual memory");

/// Whether the call meets the failure of its nth allocation.
template <typename Call>
bool fails(std::uint64_t nth, Call call) {
  const allocation_failure failure{nth};
  try {
    call();
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const hip_error&) {
    return true;
  }
  return failure.struck();
}

void sweep_memory(const suspend_options& options) {
  HIPVMM_SKIP_UNDER_ORDER_CHECKER("it ends the process without memory");
  error_recorder reported;
  const memory_tag tag;
  const hipvmm::stream stream{first_device};
  region chunks{first_device, granule(), tagged(tag)};
  chunks.commit(0, granule());
  write_tag(chunks, 0, 1, stream);
  constexpr std::uint64_t most = 1000;
  // Those of suspend() first, and then those of resume().
  for (const bool wakes : {false, true}) {
    for (std::uint64_t nth = 1;; ++nth) {
      INFO("allocation " << nth << (wakes ? " of resume" : " of suspend"));
      if (wakes) suspend(tag, keep::contents, options);
      const bool struck = fails(nth, [&] {
        static_cast<void>(wakes ? resume(tag) : suspend(tag, keep::contents, options));
      });
      if (tag.is_asleep()) resume(tag);
      CHECK(tag.statistics().bytes_on_host == 0);
      CHECK(tag.statistics().bytes_on_disk == 0);
      CHECK(has_tag(chunks, 0, 1, stream));
      if (!struck) break;
      REQUIRE(nth + 1 < most);
    }
  }
}

TEST_CASE("sleep: without memory of the host all stays as it is, with pinned memory") {
  sweep_memory({});
}

TEST_CASE("sleep: without memory of the host all stays as it is, with pageable memory") {
  sweep_memory({sleep_storage::pageable, {}, {}});
}

TEST_CASE("sleep: without memory of the host all stays as it is, with files") {
  sweep_memory({sleep_storage::file, {}, "/dev/shm"});
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
// The first use of what lives as long as the process, and refused releases of chunks, while the
// host has no memory.
#include <hipvmm/vmm/chunk_cache.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "core/background_task.hpp"
#include "region/sleep/memory_tag.hpp"
#include "runtime/device_gate.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/host/host_test.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

// noexcept functions use them first if a program's first call of the library is such a function.
HIPVMM_TEST_CASE_IN("objects of the process: their first use allocates nothing",
                    {"HIPVMM_TESTS_KEEP_CHUNKS=1", "HIPVMM_TESTS_PROBE_LATER=1"}) {
  const allocation_failure next{1};
  detail::background_task task{[] {}};
  task.cancel_or_wait();
  CHECK(chunk_cache::shared().byte_limit() != 0);
  CHECK(detail::chunk_bytes_left(first_device) != 0);
  CHECK(detail::keep_pool_searches_out().owns_lock());
  detail::require_awake_at(&next, "a test");
  CHECK_FALSE(next.struck());
}

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_TEST_CASE_IN("physical_chunk: memory that HIP keeps is counted without host memory",
                    {"HIPVMM_HOST_MEMORY=1GiB"}) {
  { const physical_chunk first{first_device, granule()}; }  // which probes
  const std::size_t of_hip = hipvmm_host_device_bytes(0);
  const std::size_t counted = detail::created_chunk_bytes(first_device);
  set_error_handler([](const char*, int, const char*) noexcept {});  // which needs no memory
  const planned_faults faults{"hipMemRelease error=hipErrorOutOfMemory"};
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    INFO("allocation " << nth << " of the host failing");
    physical_chunk ended{first_device, granule()};
    {
      const allocation_failure failure{nth};
      ended = {};
      struck = failure.struck();
    }
    CHECK(hipvmm_host_device_bytes(0) == of_hip + nth * granule());
    CHECK(detail::created_chunk_bytes(first_device) == counted + nth * granule());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test

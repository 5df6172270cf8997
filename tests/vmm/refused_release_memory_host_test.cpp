// SPDX-License-Identifier: MIT
// Refused releases of chunks while the host has no memory to note them.
#include <hipvmm/vmm/physical_chunk.hpp>
#include "support/host/allocation_failure.hpp"
#include "support/host/host_provider.hpp"
#include "support/process/child_process.hpp"
#include "support/test.hpp"
#include "vmm/chunk_limit.hpp"

namespace hipvmm::test {
namespace {

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

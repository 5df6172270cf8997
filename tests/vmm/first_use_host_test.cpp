// SPDX-License-Identifier: MIT
// The library's objects that live as long as the process, first used without memory of the host.
#include <hipvmm/vmm/chunk_cache.hpp>
#include "core/background_task.hpp"
#include "region/sleep/memory_tag.hpp"
#include "runtime/device_gate.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/process/child_process.hpp"
#include "support/test.hpp"
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

}  // namespace
}  // namespace hipvmm::test

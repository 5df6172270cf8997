// SPDX-License-Identifier: MIT
// Evictable memory in C; tests/container/evictable/evictable_host_test.cpp has the rules.
#include "c/c_interface.hpp"

namespace hipvmm::test {
namespace {

using owned_evictable = owned_handle<hipvmm_evictable, hipvmm_evictable_destroy>;

owned_evictable make_evictable(const char* tag, const char* options = nullptr,
                               hipvmm_fill_callback fill = nullptr, void* argument = nullptr) {
  return owned_evictable{result_of(hipvmm_evictable_create, tag, 0, options, fill, argument)};
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("C evictable: an allocation of the whole device evicts it, and a use brings it back") {
  const owned_buffer buffer = make_buffer("max=1GiB,sleep_tag=c_evictable");
  require_ok(hipvmm_buffer_append(buffer, "abc", 3, nullptr));
  const owned_evictable held = make_evictable("c_evictable", "priority=-1,storage=pinned_kept");
  CHECK(fails(hipvmm_buffer_append(buffer, "x", 1, nullptr), HIPVMM_ERROR_INVALID_STATE,
              "may be evicted"));
  std::size_t bytes = 0;
  const hipvmm_status slept = hipvmm_suspend("c_evictable", HIPVMM_KEEP_CONTENTS, nullptr, &bytes);
  if (slept == HIPVMM_ERROR_UNSUPPORTED) return;
  require_ok(slept);
  require_ok(hipvmm_evictable_prefetch(held, nullptr));
  require_ok(hipvmm_evictable_use(held, nullptr, 0));
  CHECK(first_bytes(buffer) == "abc");
  require_ok(hipvmm_evictable_done(held, nullptr));
  CHECK(fails(hipvmm_evictable_done(held, nullptr), HIPVMM_ERROR_INVALID_STATE, "no use()"));
  const auto now = result_of(hipvmm_evictable_get_statistics, held);
  CHECK(now.returns == 1);
  CHECK(now.returned_bytes == bytes);
  char reason[8];
  CHECK(result_of(hipvmm_evictable_reason, held, reason, sizeof reason) == 0);
  hipvmm_evictable second = nullptr;
  CHECK(fails(hipvmm_evictable_create("c_evictable", 0, nullptr, nullptr, nullptr, &second),
              HIPVMM_ERROR_INVALID_ARGUMENT, "has one already"));
  CHECK(fails(hipvmm_evictable_create(nullptr, 0, nullptr, nullptr, nullptr, &second),
              HIPVMM_ERROR_INVALID_ARGUMENT, "tag is null"));
  CHECK(fails(hipvmm_evictable_create("c_other", 0, "storage=file", nullptr, nullptr, &second),
              HIPVMM_ERROR_INVALID_ARGUMENT, "folder"));
}

TEST_CASE("C evictable: a pool allocates in a use alone") {
  const owned_resource pool = make_pool("sleep_tag=c_evictable_pool");
  const owned_evictable held = make_evictable("c_evictable_pool");
  void* memory = nullptr;
  CHECK(fails(hipvmm_allocate(pool, 256, 0, nullptr, &memory), HIPVMM_ERROR_INVALID_STATE,
              "may be evicted: call use()"));
  require_ok(hipvmm_evictable_use(held, nullptr, 1));
  require_ok(hipvmm_allocate(pool, 256, 0, nullptr, &memory));
  require_ok(hipvmm_evictable_done(held, nullptr));
  require_ok(hipvmm_deallocate(pool, memory, 256, 0, nullptr));
}

TEST_SUITE_END();

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include "c/c_interface.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

/// Allocates, uses and frees memory of a resource.
void check_serves(hipvmm_resource resource) {
  for (const std::size_t bytes : {std::size_t{1}, 4 * KiB}) {
    void* memory = result_of(hipvmm_allocate, resource, bytes, 0, nullptr);
    REQUIRE(memory != nullptr);
    require_ok(hipvmm_copy(memory, "x", 1, nullptr));
    require_ok(hipvmm_deallocate(resource, memory, bytes, 0, nullptr));
    require_ok(hipvmm_allocate_sync(resource, bytes, 0, &memory));
    require_ok(hipvmm_deallocate_sync(resource, memory, bytes, 0));
  }
}

std::string kind_of(hipvmm_resource resource) { return result_of(hipvmm_resource_kind, resource); }

owned_resource make_hip() { return owned_resource{result_of(hipvmm_hip_create, 0)}; }

TEST_CASE("C resources: each kind serves, and says what it is") {
  std::vector<owned_resource> made;
  const auto add = [&](hipvmm_status status, owned_resource resource, const char* kind) {
    require_ok(status);
    CHECK(kind_of(resource) == kind);
    check_serves(resource);
    made.push_back(std::move(resource));
  };
#define HIPVMM_ADD(kind, call)         \
  {                                    \
    owned_resource of;                 \
    const hipvmm_status status = call; \
    add(status, std::move(of), kind);  \
  }
  HIPVMM_ADD("hip", hipvmm_hip_create(0, of.out()));
  HIPVMM_ADD("managed", hipvmm_managed_create(of.out()));
  HIPVMM_ADD("pinned", hipvmm_pinned_create("mapped=on", of.out()));
  HIPVMM_ADD("pool", hipvmm_pool_create(0, "maximum=128MiB", of.out()));
  const hipvmm_resource pool = made.back();
  HIPVMM_ADD("arena", hipvmm_arena_create(pool, "maximum=64MiB", of.out()));
  HIPVMM_ADD("fixed_size", hipvmm_fixed_size_create(pool, "block_size=4KiB,blocks=4", of.out()));
  HIPVMM_ADD("binning", hipvmm_binning_create(pool, "min_exponent=8,max_exponent=10", of.out()));
  HIPVMM_ADD("statistics", hipvmm_statistics_create(pool, of.out()));
  HIPVMM_ADD("tracking", hipvmm_tracking_create(pool, "stacks=on", of.out()));
  HIPVMM_ADD("limiting", hipvmm_limiting_create(pool, MiB, "alignment=512", of.out()));
#undef HIPVMM_ADD
  owned_resource async;
  const hipvmm_status status = hipvmm_async_create(0, "release_threshold=8MiB", async.out());
  if (device_ref{0}.supports_memory_pools() && status == HIPVMM_OK) check_serves(async);
  CHECK(result_of(hipvmm_resource_device, pool) == 0);
  CHECK(result_of(hipvmm_resource_device, made[1]) == -1);
  CHECK(result_of(hipvmm_resource_is_host_accessible, made[2]) == 1);
}

TEST_CASE("C resources: an adaptor keeps its upstream, which can be had again") {
  owned_resource pool = make_pool();
  const owned_resource statistics{result_of(hipvmm_statistics_create, pool)};
  owned_resource upstream{result_of(hipvmm_resource_upstream, statistics)};
  CHECK(result_of(hipvmm_resource_is_equal, upstream, pool) == 1);
  pool.reset();
  upstream.reset();
  check_serves(statistics);
  const owned_resource hip = make_hip();
  CHECK(fails(hipvmm_resource_upstream(hip, upstream.out()), HIPVMM_ERROR_INVALID_HANDLE,
              "hip has no upstream"));
}

TEST_CASE("C resources: statistics count on levels") {
  const owned_resource hip = make_hip();
  const owned_resource statistics{result_of(hipvmm_statistics_create, hip)};
  void* const memory = result_of(hipvmm_allocate, statistics, 1000, 0, nullptr);
  hipvmm_counters counters = result_of(hipvmm_statistics_push, statistics);
  CHECK(counters.current_bytes == 1000);
  CHECK(counters.current_count == 1);
  require_ok(hipvmm_deallocate(statistics, memory, 1000, 0, nullptr));
  require_ok(hipvmm_statistics_pop(statistics, &counters));
  CHECK(counters.current_bytes == -1000);
  require_ok(hipvmm_statistics_counters(statistics, &counters));
  CHECK(counters.current_bytes == 0);
  CHECK(counters.peak_bytes == 1000);
  CHECK(counters.total_count == 1);
  CHECK(hipvmm_statistics_pop(statistics, &counters) == HIPVMM_ERROR_OUT_OF_RANGE);
  // A struct of the wrong size begins no level.
  hipvmm_counters wrong{};
  CHECK(hipvmm_statistics_push(statistics, &wrong) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_statistics_pop(statistics, &counters) == HIPVMM_ERROR_OUT_OF_RANGE);
}

TEST_CASE("C resources: a tracking adaptor lists what is allocated, a limiting one refuses") {
  const owned_resource hip = make_hip();
  const owned_resource tracking{result_of(hipvmm_tracking_create, hip, nullptr)};
  const owned_resource limiting{result_of(hipvmm_limiting_create, tracking, 4096, nullptr)};
  void* const memory = result_of(hipvmm_allocate, limiting, 1000, 0, nullptr);
  CHECK(result_of(hipvmm_tracking_allocated, tracking) == 1000);
  CHECK(result_of(hipvmm_limiting_allocated, limiting) == 1024);
  CHECK(text_of(hipvmm_tracking_outstanding, tracking).find("1000") != std::string::npos);
  void* more = nullptr;
  CHECK(hipvmm_allocate(limiting, 4096, 0, nullptr, &more) == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(result_of(hipvmm_last_failure).exhausted == HIPVMM_EXHAUSTED_LIMIT);
  require_ok(hipvmm_deallocate(limiting, memory, 1000, 0, nullptr));
}

TEST_CASE("C resources: bins serve by size, in blocks of their own or another's") {
  const owned_resource hip = make_hip();
  const owned_resource statistics{result_of(hipvmm_statistics_create, hip)};
  owned_resource bin{result_of(hipvmm_statistics_create, hip)};
  const owned_resource binning{result_of(hipvmm_binning_create, statistics, nullptr)};
  require_ok(hipvmm_binning_add_bin_resource(binning, 4096, bin));
  const hipvmm_resource bin_handle = bin;
  void* const memory = result_of(hipvmm_allocate, binning, 4096, 0, nullptr);
  CHECK(result_of(hipvmm_statistics_counters, bin_handle).current_bytes == 4096);
  require_ok(hipvmm_deallocate(binning, memory, 4096, 0, nullptr));
  bin.reset();  // the binning resource keeps it
  check_serves(binning);
  require_ok(hipvmm_binning_add_bin(binning, 64 * KiB));
  CHECK(hipvmm_binning_add_bin(binning, 0) == HIPVMM_ERROR_INVALID_ARGUMENT);
  const owned_resource blocks{result_of(hipvmm_fixed_size_create, hip, "block_size=1000,blocks=2")};
  CHECK(result_of(hipvmm_fixed_size_block, blocks) == 1024);
}

TEST_CASE("C resources: a log has a row for each call") {
  const temporary_folder folder;
  const std::string file = (folder.path() / "log.csv").string();
  const owned_resource hip = make_hip();
  const owned_resource logging{result_of(hipvmm_logging_create, hip, file.c_str(), nullptr)};
  check_serves(logging);
  require_ok(hipvmm_logging_flush(logging));
  const std::string rows = content_of(file);
  CHECK(rows.find("allocate") != std::string::npos);
  CHECK(rows.find("free") != std::string::npos);
  owned_resource refused;
  CHECK(hipvmm_logging_create(hip, "/proc/no/such/file", nullptr, refused.out()) ==
        HIPVMM_ERROR_SYSTEM);
  ::unsetenv("HIPVMM_LOG_FILE");
  ::unsetenv("RMM_LOG_FILE");
  CHECK(hipvmm_logging_create(hip, nullptr, nullptr, refused.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
}

int retry_once(std::size_t, void* argument) { return (*static_cast<int*>(argument))++ == 0; }

TEST_CASE("C resources: a failure callback is asked whether to try again") {
  const owned_resource pool = make_pool("maximum=8MiB");
  int calls = 0;
  owned_resource adaptor{result_of(hipvmm_failure_callback_create, pool, retry_once, &calls)};
  void* memory = nullptr;
  CHECK(hipvmm_allocate(adaptor, 64 * MiB, 0, nullptr, &memory) == HIPVMM_ERROR_OUT_OF_MEMORY);
  CHECK(calls == 2);
  check_serves(adaptor);
  CHECK(hipvmm_failure_callback_create(pool, nullptr, nullptr, adaptor.out()) ==
        HIPVMM_ERROR_INVALID_ARGUMENT);
}

void* allocate_from(std::size_t bytes, void* stream, void* argument) {
  void* memory = nullptr;
  return hipvmm_allocate(static_cast<hipvmm_resource>(argument), bytes, 0, stream, &memory) ==
                 HIPVMM_OK
             ? memory
             : nullptr;
}
void deallocate_to(void* pointer, std::size_t bytes, void* stream, void* argument) {
  require_ok(hipvmm_deallocate(static_cast<hipvmm_resource>(argument), pointer, bytes, 0, stream));
}

TEST_CASE("C resources: memory of the program's own functions") {
  const owned_resource pool = make_pool("maximum=64MiB");
  const owned_resource callback{
      result_of(hipvmm_callback_create, allocate_from, deallocate_to, pool.get())};
  check_serves(callback);
  void* memory = nullptr;
  CHECK(hipvmm_allocate(callback, 256 * MiB, 0, nullptr, &memory) == HIPVMM_ERROR_OUT_OF_MEMORY);
  owned_resource refused;
  CHECK(fails(hipvmm_callback_create(allocate_from, nullptr, nullptr, refused.out()),
              HIPVMM_ERROR_INVALID_ARGUMENT, "deallocate is null"));
}

TEST_CASE("C resources: one is set for a device, lives as long, and C++ code gets it") {
  owned_resource pool = make_pool();
  require_ok(hipvmm_set_device_resource(0, pool));
  owned_resource got{result_of(hipvmm_get_device_resource, 0)};
  CHECK(result_of(hipvmm_resource_is_equal, got, pool) == 1);
  CHECK(kind_of(got) == "pool");
  pool.reset();
  got.reset();
  void* const memory = mr::get_per_device_resource(first_device)->allocate_sync(100);
  mr::get_per_device_resource(first_device)->deallocate_sync(memory, 100);
  require_ok(hipvmm_get_current_device_resource(got.out()));
  CHECK(kind_of(got) == "pool");
  require_ok(hipvmm_reset_current_device_resource());
  owned_resource initial{result_of(hipvmm_get_device_resource, 0)};
  CHECK(kind_of(initial) == "foreign");
  check_serves(initial);
  check_serves(got);
  require_ok(hipvmm_set_current_device_resource(got));
  require_ok(hipvmm_reset_device_resource(0));
  CHECK(hipvmm_set_device_resource(99, got) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_reset_device_resource(99) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_get_device_resource(99, initial.out()) == HIPVMM_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("C resources: a resource of another device is refused, and the one in use stays") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const owned_resource other = make_pool(nullptr, 1);
  const mr::memory_resource* const before = mr::get_per_device_resource(first_device);
  CHECK(hipvmm_set_device_resource(0, other) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(mr::get_per_device_resource(first_device) == before);
}

std::string handled;  // NOLINT(runtime/string): a plain function writes to it
void keep_message(const char* call, int, const char* message) {
  handled = std::string{call} + ": " + message;
}

TEST_CASE("C interface: the error handler gets what no call can return") {
  const owned_resource hip = make_hip();
  const owned_resource tracking{result_of(hipvmm_tracking_create, hip, nullptr)};
  void* const memory = result_of(hipvmm_allocate, tracking, 100, 0, nullptr);
  require_ok(hipvmm_set_error_handler(keep_message));
  require_ok(hipvmm_deallocate(tracking, memory, 99, 0, nullptr));
  require_ok(hipvmm_set_error_handler(nullptr));
  CHECK_MESSAGE(handled.find("99") != std::string::npos, handled);
}

TEST_CASE("C interface: the debug log has levels by name") {
  const char* const before = result_of(hipvmm_logging_level);
  require_ok(hipvmm_set_logging_level("off"));
  CHECK(std::string{result_of(hipvmm_logging_level)} == "off");
  require_ok(hipvmm_log("info", "a line that is not written"));
  require_ok(hipvmm_flush_log());
  CHECK(fails(hipvmm_set_logging_level("loud"), HIPVMM_ERROR_INVALID_ARGUMENT,
              "'loud'; allowed: trace, debug"));
  CHECK(hipvmm_set_logging_level(nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_log("info", nullptr) == HIPVMM_ERROR_INVALID_ARGUMENT);
  CHECK(hipvmm_log("loud", "a line") == HIPVMM_ERROR_INVALID_ARGUMENT);
  require_ok(hipvmm_set_logging_level(before));
}

}  // namespace
}  // namespace hipvmm::test

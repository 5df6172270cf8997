// SPDX-License-Identifier: MIT
// Memory of hipMalloc and of the host, and pools, that HIP refuses to free when their owner ends.
#include <hipvmm/runtime/device_allocation.hpp>

#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/mr/resource/pinned_host_resource.hpp>
#include <hipvmm/region/retirement.hpp>
#include "core/observers/memory_events.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/host/free_host_memory.hpp"
#include "runtime/host/pinned_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

/// The sum of the changes that the library notes.
class noted_bytes {
 public:
  noted_bytes() {
    drain_retired_memory();
    sum = 0;
    before_ = detail::memory_changes.exchange(&receiver);
  }
  ~noted_bytes() { detail::memory_changes = before_; }
  noted_bytes& operator=(noted_bytes&&) = delete;
  [[nodiscard]] std::int64_t get() const { return sum; }

 private:
  static inline std::atomic<std::int64_t> sum;
  static constexpr detail::memory_change_receiver receiver{
      [](int, std::int64_t bytes) noexcept { sum += bytes; }, [](const memory_event&) noexcept {}};
  const detail::memory_change_receiver* before_;
};

/// Runs `end` while HIP refuses `call`, and then has the library try again.
void check_returns_later(const char* call, const std::function<void()>& end) {
  CAPTURE(std::string{call});
  const error_recorder reported;
  drain_retired_memory();
  const hipvmm_host_counters before = live_objects();
  std::size_t first = 0;
  {
    const planned_faults faults{std::string{call} + " error=hipErrorUnknown"};
    end();
    CHECK(reported.count() != 0);
    CHECK_FALSE(live_objects() == before);
    first = reported.count();
    drain_retired_memory();
    CHECK_FALSE(live_objects() == before);
  }
  CHECK(reported.count() == first);  // each once
  drain_retired_memory();
  CHECK(live_objects() == before);
  CHECK(hipPeekAtLastError() == hipSuccess);
}

TEST_CASE("device_allocation: memory that HIP refuses to free stays counted and is freed later") {
  const noted_bytes noted;
  check_returns_later("hipFree", [&] {
    { const device_allocation memory{first_device, MiB}; }
    CHECK(noted.get() == MiB);
  });
  CHECK(noted.get() == 0);
}

TEST_CASE("device_allocation: a pointer that HIP does not know is reported and forgotten") {
  const error_recorder reported;
  const noted_bytes noted;
  int local = 0;
  { const device_allocation none{&local, first_device, MiB}; }
  CHECK(reported.count() == 1);
  CHECK(noted.get() == -static_cast<std::int64_t>(MiB));
  const call_counter freed{"hipFree"};
  drain_retired_memory();
  CHECK(freed.count() == 0);
}

TEST_CASE("device_allocation: a request that lacks memory frees memory that HIP kept") {
  const error_recorder reported;
  const std::size_t most = first_device.total_memory() / 4 * 3;
  mr::hip_resource resource{first_device};
  {
    const planned_fault fault{"hipFree", 1, hipErrorUnknown};
    { const device_allocation memory{first_device, most}; }
    CHECK(fault.struck());
  }
  CHECK(reported.count() == 1);
  void* const next = resource.allocate_sync(most);
  resource.deallocate_sync(next, most);
}

TEST_CASE("device_allocation: ends that wait for no device are tried again without it") {
  const error_recorder reported;
  drain_retired_memory();
  {
    const planned_fault fault{"hipFree", 1, hipErrorUnknown};
    { const device_allocation memory{first_device, MiB}; }
    REQUIRE(fault.struck());
  }
  const call_counter freed{"hipFree"};
  CHECK_FALSE(detail::retry_refused_ends(detail::refusals::pass));
  CHECK(freed.count() == 0);
  CHECK(detail::retry_refused_ends(detail::refusals::wait));
  CHECK(freed.count() == 1);
}

TEST_CASE("resources: memory that HIP refuses to free is freed later") {
  const auto use_once = [](mr::memory_resource& resource) {
    resource.deallocate_sync(resource.allocate_sync(MiB), MiB);
  };
  mr::managed_resource managed;
  mr::pinned_host_resource pinned;
  check_returns_later("hipFree", [&] { use_once(managed); });
  check_returns_later("hipHostFree", [&] { use_once(pinned); });
}

TEST_CASE("pinned_host_resource: a request that lacks memory frees memory that HIP kept") {
  const error_recorder reported;
  const hipvmm_host_counters before = live_objects();
  mr::pinned_host_resource pinned;
  void* const refused = pinned.allocate_sync(MiB);
  {
    const planned_fault fault{"hipHostFree", 1, hipErrorUnknown};
    pinned.deallocate_sync(refused, MiB);
    CHECK(fault.struck());
  }
  const planned_fault fault{"hipHostMalloc", 1, hipErrorOutOfMemory};
  pinned.deallocate_sync(pinned.allocate_sync(MiB), MiB);
  CHECK(fault.struck());
  CHECK(live_objects() == before);
}

TEST_CASE("hip_async_resource: a pool that HIP refuses to destroy is destroyed later") {
  if (!first_device.supports_memory_pools()) return;
  { const mr::hip_async_resource used{first_device}; }  // the first probes
  check_returns_later("hipMemPoolDestroy", [] { mr::hip_async_resource{first_device}; });
}

}  // namespace
}  // namespace hipvmm::test

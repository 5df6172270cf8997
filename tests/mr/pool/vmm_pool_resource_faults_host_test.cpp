// SPDX-License-Identifier: MIT
#include <deque>

#include <hipvmm/capability/capability.hpp>
#include "core/background_task.hpp"
#include "mr/mr_test.hpp"
#include "support/device_bytes.hpp"
#include "support/host/host_test.hpp"
#include "support/region/assumed_capability.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// Memory that goes back in any case.
class lease {
 public:
  lease(vmm_pool_resource& from, stream_ref stream, std::size_t bytes)
      : from_{from}, stream_{stream}, bytes_{bytes}, pointer_{from.allocate(stream, bytes)} {}
  ~lease() { from_.deallocate(stream_, pointer_, bytes_); }
  lease& operator=(lease&&) = delete;

 private:
  vmm_pool_resource& from_;
  stream_ref stream_;
  std::size_t bytes_;
  void* pointer_;
};

/// Writes to the start of each 2 MiB: all of it would cost more time than the pool takes.
void touch(stream_ref stream, void* memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 2 * MiB)
    fill_async(stream, test::advance(memory, at), 1, std::min<std::size_t>(64, bytes - at));
}

/// A pool of eight chunks, every other one freed, by two streams in turn: when all work is
/// done, or while it is held.
struct worn_pool {
  explicit worn_pool(bool in_use = false) : first{first_device}, second{first_device} {
    if (in_use) held.emplace();
    pool.emplace(first_device, pool_options{.maximum_bytes = most});
    for (int i = 0; i < 8; ++i)
      parts.push_back(pool->allocate(i % 4 == 2 ? second : first, 4 * MiB));
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const stream& used = i % 4 == 0 ? first : second;
      if (in_use) touch(used, parts[i], 4 * MiB);
      pool->deallocate(used, parts[i], 4 * MiB);
    }
    if (in_use) return;
    first.synchronize();
    second.synchronize();
  }
  ~worn_pool() {
    for (std::size_t i = 1; i < parts.size(); i += 2) pool->deallocate(first, parts[i], 4 * MiB);
  }
  void verify() {
    held.reset();
    CHECK(pool->statistics().used_current == 16 * MiB);
    for (const std::size_t bytes : {std::size_t{4000}, 4 * MiB, 20 * MiB}) {
      void* const one = pool->allocate(second, bytes);
      touch(second, one, bytes);
      second.synchronize();
      pool->deallocate(second, one, bytes);
    }
    CHECK(pool->statistics().reserved_current <= most);
  }

  // Slabs are left half free.
  const std::size_t most = test::on_fallback() ? 128 * MiB : 64 * MiB;
  stream first;
  stream second;
  std::optional<vmm_pool_resource> pool;
  std::vector<void*> parts;
  std::optional<test::held_streams> held;
};

template <typename Operation>
void sweep(const char* name, Operation operation, bool in_use = false) {
  test::fault_sweep{name, test::after_failure::capacity}.run(
      [=] { return std::make_unique<worn_pool>(in_use); },
      [&](auto& subject) { operation(subject); }, [](auto& subject) { subject.verify(); },
      [](auto& subject) { subject.verify(); });
}

TEST_CASE("vmm_pool_resource: what is held and allocated is known where HIP has ended") {
  vmm_pool_resource pool{first_device, test::at_most(64 * MiB)};
  const stream used{first_device};
  void* const memory = pool.allocate(used, 4 * MiB);
  const pool_usage before = pool.usage();
  {
    const test::planned_faults ended{"any error=hipErrorDeinitialized"};
    const pool_usage now = pool.usage();
    CHECK(now.used_current == 4 * MiB);
    CHECK(now.reserved_current == before.reserved_current);
    CHECK(pool.contains(memory));
  }
  pool.deallocate(used, memory, 4 * MiB);
}

}  // namespace

TEST_CASE("vmm_pool_resource: construction that fails leaves nothing behind") {
  test::fault_sweep{"vmm_pool_resource"}.run([] {
    const pool_options options{.initial_bytes = 12 * MiB, .maximum_bytes = 64 * MiB};
    const vmm_pool_resource pool{first_device, options};
  });
}

TEST_CASE("vmm_pool_resource: allocate that fails leaves the pool as it was") {
  sweep("allocate of what moved and new chunks hold", [](worn_pool& subject) {
    const lease one{*subject.pool, subject.second, 24 * MiB};
  });
  sweep("allocate of another stream's memory", [](worn_pool& subject) {
    fill_async(subject.first, subject.parts[1], 1, 4 * MiB);
    const lease one{*subject.pool, subject.second, 4 * MiB};
    const lease two{*subject.pool, subject.second, 4 * MiB};
    const lease three{*subject.pool, subject.second, 4 * MiB};
  });
  sweep("allocate_sync", [](worn_pool& subject) {
    void* const one = subject.pool->allocate_sync(12 * MiB);
    subject.pool->deallocate_sync(one, 12 * MiB);
  });
}

TEST_CASE("vmm_pool_resource: a growth of several chunks that fails leaves nothing mapped") {
  test::fault_sweep{"growth of several chunks", test::after_failure::capacity}.run(
      [] { return std::make_unique<vmm_pool_resource>(first_device, test::at_most(64 * MiB)); },
      [](auto& pool) {
        const stream used{first_device};
        const lease one{pool, used, 36 * MiB};
        const lease two{pool, used, 20 * MiB};
      },
      [](auto& pool) { CHECK(pool.statistics().used_current == 0); },
      [](auto& pool) { CHECK(pool.statistics().reserved_current <= 64 * MiB); });
}

TEST_CASE("vmm_pool_resource: the chunks of a growth get their rights by one call" *
          test::needs_virtual_memory) {
  if (!capability_of(first_device).has(trait::base_access)) return;
  vmm_pool_resource pool{first_device, test::at_most(256 * MiB)};
  const stream used{first_device};
  const test::call_counter maps{"hipMemMap"};
  const test::call_counter grants{"hipMemSetAccess"};
  const lease one{pool, used, 64 * MiB};
  CHECK(maps.count() > 1);
  CHECK(grants.count() == 1);
}

TEST_CASE("vmm_pool_resource: a device that has less than a growth rounds up to serves it" *
          test::needs_virtual_memory) {
  vmm_pool_resource pool{first_device, test::at_most(256 * MiB)};
  const stream used{first_device};
  const lease held{pool, used, 64 * MiB};
  const std::size_t before = pool.statistics().reserved_current;
  const bool has_one_size = capability_of(first_device).needs(quirk::access_from_base);
  {
    const test::planned_fault full{"hipMemCreate", has_one_size ? 1U : 2U, hipErrorOutOfMemory};
    const lease one{pool, used, 18 * MiB};
    CHECK(full.struck());
  }
  if (!has_one_size) CHECK(pool.statistics().reserved_current == before + 18 * MiB);
}

TEST_CASE("vmm_pool_resource: out_of_memory is not lost where HIP does not say what is free") {
  const test::error_recorder recorder;
  vmm_pool_resource pool{first_device, {.maximum_bytes = 8 * MiB}};
  const stream stream{first_device};
  test::planned_fault fault{"hipMemGetInfo", 1, hipErrorUnknown};
  CHECK_THROWS_AS(pool.allocate(stream, 16 * MiB), out_of_memory);
  CHECK(fault.struck());
  CHECK(recorder.count() == 1);
}

TEST_CASE("vmm_pool_resource: a move of chunks in use that fails leaves the pool as it was" *
          test::needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(unmap_waits);  // for the streams that are held
  sweep(
      "allocate of chunks in use",
      [](worn_pool& subject) {
        const lease one{*subject.pool, subject.second, 12 * MiB};
        subject.held.reset();
        subject.second.synchronize();
        // A task unmaps the old addresses.
        hipvmm::detail::wait_for_background_tasks();
      },
      true);
}

// On slabs neither makes a call that can fail: slabs go in the background.
TEST_CASE("vmm_pool_resource: trim and grant that fail leave the pool to be used" *
          test::needs_virtual_memory) {
  if (test::returns_chunks())
    sweep("trim_to", [](worn_pool& subject) { subject.pool->trim_to(0); });
  sweep("grant", [](worn_pool& subject) { subject.pool->grant(device_ref{1}); });
  sweep("set_access", [](worn_pool& subject) {
    subject.pool->set_access({{device_ref{1}, access_right::read}});
  });
}

TEST_CASE("vmm_pool_resource: a trim of an idle pool that fails leaves it to be used" *
          test::needs_virtual_memory) {
  test::fault_sweep{"trim_to"}.run([] {
    vmm_pool_resource pool{first_device, test::at_most(64 * MiB)};
    const stream used{first_device};
    for (int i = 0; i < 2; ++i) {
      void* const one = pool.allocate(used, 8 * MiB);
      touch(used, one, 8 * MiB);
      used.synchronize();
      pool.deallocate(used, one, 8 * MiB);
      pool.trim_to(0);
    }
  });
}

TEST_CASE("vmm_pool_resource: forget_stream that fails leaves the pool to be used") {
  sweep("forget_stream", [](worn_pool& subject) {
    { const lease one{*subject.pool, subject.first, 1 * MiB}; }
    subject.pool->forget_stream(subject.first);
  });
}

TEST_CASE("vmm_pool_resource: memory of a default stream is freed if no fence can be made") {
  sweep("deallocate of a per-thread default stream", [](worn_pool& subject) {
    const lease one{*subject.pool, stream_ref::per_thread_default(), 1000};
    const lease two{*subject.pool, stream_ref::per_thread_default(), 1 * MiB};
  });
}

TEST_CASE("hip_resource: allocate that fails leaves nothing behind") {
  test::fault_sweep{"hip_resource"}.run([] {
    hip_resource resource{first_device};
    void* const one = resource.allocate_sync(5000);
    resource.deallocate_sync(one, 5000);
  });
}

TEST_CASE("vmm_pool_resource: addresses that HIP will not unmap cost only themselves" *
          test::needs_virtual_memory) {
  const hipvmm_host_counters before = test::live_objects();
  {
    vmm_pool_resource pool{first_device, {.maximum_bytes = 64 * MiB}};
    const stream used{first_device};
    const std::size_t outside = hipvmm_host_device_bytes(0);
    const test::error_recorder reported;
    // Ten refusals: those of the undo, and of the retries.
    std::string plan = "hipMemSetAccess nth=1 error=hipErrorUnknown";
    for (int i = 1; i <= 10; ++i)
      plan += "; hipMemUnmap nth=" + std::to_string(i) + " error=hipErrorUnknown";
    REQUIRE(hipvmm_host_set_faults(plan.c_str()) == nullptr);
    CHECK_THROWS_AS(pool.allocate(used, 4 * MiB), hip_error);
    const std::size_t lost = pool.statistics().reserved_current;
    CHECK(lost != 0);
    CHECK(hipvmm_host_device_bytes(0) - outside == lost);
    CHECK(pool.statistics().mapped_bytes >= lost);
    // Other addresses serve while those are mapped, and the limit counts them.
    void* const other = pool.allocate(used, 4 * MiB);
    fill_async(used, other, 1, 4 * MiB);
    CHECK(pool.statistics().reserved_current >= lost + 4 * MiB);
    CHECK_THROWS_AS(pool.allocate(used, 60 * MiB), out_of_memory);
    hipvmm_host_set_faults(nullptr);
    void* const all = pool.allocate(used, 60 * MiB);
    CHECK(pool.statistics().reserved_current == 64 * MiB);
    pool.deallocate(used, all, 60 * MiB);
    pool.deallocate(used, other, 4 * MiB);
    used.synchronize();
    pool.trim_to(0);
    CHECK(hipvmm_host_device_bytes(0) - outside == pool.statistics().reserved_current);
  }
  drain_retired_memory();
  CHECK(test::live_objects() == before);
}

TEST_CASE("vmm_pool_resource: its limit counts chunks of a failed growth that addresses pin" *
          test::needs_virtual_memory) {
  // The same again takes these chunks. Those of smaller growths are smaller.
  for (const std::size_t bytes : {128 * MiB, 24 * MiB}) {
    INFO("requests of " << bytes / MiB << " MiB");
    drain_retired_memory();
    vmm_pool_resource pool{first_device, test::at_most(256 * MiB)};
    const stream used{first_device};
    const std::size_t outside = hipvmm_host_device_bytes(0);
    {
      const lease kept{pool, used, 4 * MiB};
      {
        const test::planned_fault refused{"hipMemSetAccess", 1, hipErrorUnknown};
        CHECK_THROWS_AS(pool.allocate(used, 128 * MiB), hip_error);
        CHECK(refused.struck());
      }
      std::deque<lease> held;
      CHECK_THROWS_AS(for (;;) held.emplace_back(pool, used, bytes), out_of_memory);
      CHECK(held.size() * bytes >= 120 * MiB);
      CHECK(hipvmm_host_device_bytes(0) - outside <= 256 * MiB);
    }
    used.synchronize();
    pool.trim_to(0);
    CHECK(hipvmm_host_device_bytes(0) == outside);
  }
}

TEST_CASE("vmm_pool_resource: a growth whose undo HIP refuses leaves all to later requests" *
          test::needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(unmap_waits);  // for the streams that are held
  for (const bool in_use : {false, true}) {
    bool struck = true;
    for (int nth = 1; struck; ++nth) {
      INFO("HIP call " << nth << " and the next unmap fail, in use " << in_use);
      REQUIRE(nth < 300);
      const test::error_recorder reported;
      worn_pool subject{in_use};
      const test::call_counter calls{nullptr};
      const std::string plan =
          "any nth=" + std::to_string(nth) +
          " error=hipErrorOperatingSystem; hipMemUnmap nth=1 error=hipErrorUnknown";
      REQUIRE(hipvmm_host_set_faults(plan.c_str()) == nullptr);
      try {
        const lease large{*subject.pool, subject.first, 20 * MiB};
      } catch (const std::exception&) {
      }
      struck = calls.count() >= static_cast<std::uint64_t>(nth);
      hipvmm_host_set_faults(nullptr);
      REQUIRE(hipSetDevice(0) == hipSuccess);
      static_cast<void>(hipGetLastError());
      subject.verify();
      void* const all = subject.pool->allocate(subject.first, subject.most - 16 * MiB);
      subject.pool->deallocate(subject.first, all, subject.most - 16 * MiB);
    }
  }
}

TEST_CASE("vmm_pool_resource: chunks that HIP neither unmaps nor maps again serve no request" *
          test::needs_virtual_memory) {
  const test::assumed_capability one_address{"coherent_aliases=no"};
  vmm_pool_resource pool{first_device, test::at_most(36 * MiB)};
  const stream used{first_device};
  std::vector<void*> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(pool.allocate(used, 4 * MiB));
  for (int i = 0; i < 3; ++i) pool.deallocate(used, parts[i], 4 * MiB);
  used.synchronize();
  {
    const test::error_recorder reported;
    const test::planned_faults refused{
        "hipMemUnmap nth=2 error=hipErrorUnknown; hipMemMap nth=1 error=hipErrorUnknown"};
    try {
      const lease large{pool, used, 16 * MiB};
    } catch (const hip_error&) {
    }
  }
  static_cast<void>(hipGetLastError());
  for (int i = 0; i < 3; ++i) {
    parts[i] = pool.allocate(used, 4 * MiB);
    touch(used, parts[i], 4 * MiB);
  }
  used.synchronize();
  for (void* const each : parts) pool.deallocate(used, each, 4 * MiB);
}

}  // namespace hipvmm::mr

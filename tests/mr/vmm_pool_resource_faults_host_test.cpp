// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/copy.hpp>
#include <hipvmm/core/stream.hpp>
#include <hipvmm/mr/hip_resource.hpp>
#include <hipvmm/mr/vmm_pool_resource.hpp>
#include "core/background_task.hpp"
#include "mr/pool_limit.hpp"
#include "support/devices.hpp"
#include "support/fault_sweep.hpp"
#include "support/host_profile.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;

/// Memory that goes back whatever happens.
class lease {
 public:
  lease(vmm_pool_resource& from, stream_ref stream, std::size_t bytes)
      : from_{from}, stream_{stream}, bytes_{bytes}, pointer_{from.allocate(stream, bytes)} {}
  ~lease() { from_.deallocate(stream_, pointer_, bytes_); }
  lease(const lease&) = delete;
  lease& operator=(const lease&) = delete;

 private:
  vmm_pool_resource& from_;
  stream_ref stream_;
  std::size_t bytes_;
  void* pointer_;
};

/// A pool of eight chunks, every other one given back, by two streams in turn: when all work is
/// done, or while it is held.
struct worn_pool {
  explicit worn_pool(bool in_use = false) : first{first_device}, second{first_device} {
    if (in_use) held.emplace();
    pool_options options;
    options.maximum_bytes = most;
    pool.emplace(first_device, options);
    for (int i = 0; i < 8; ++i) parts.push_back(pool->allocate(first, 4 * MiB));
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      const stream& used = i % 4 == 0 ? first : second;
      if (in_use) fill_async(used, parts[i], 1, 4 * MiB);
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
      fill_async(second, one, 1, bytes);
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
      [&](const std::unique_ptr<worn_pool>& subject) { operation(*subject); },
      [](const std::unique_ptr<worn_pool>& subject) { subject->verify(); },
      [](const std::unique_ptr<worn_pool>& subject) { subject->verify(); });
}

}  // namespace

TEST_CASE("vmm_pool_resource: construction that fails leaves nothing behind") {
  test::fault_sweep{"vmm_pool_resource"}.run([] {
    pool_options options;
    options.maximum_bytes = 64 * MiB;
    options.initial_bytes = 12 * MiB;
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

TEST_CASE("vmm_pool_resource: a move of chunks in use that fails leaves the pool as it was" *
          test::needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(unmap_waits);  // for the streams that are held
  sweep(
      "allocate of chunks in use",
      [](worn_pool& subject) {
        const lease one{*subject.pool, subject.second, 12 * MiB};
        subject.held.reset();
        subject.second.synchronize();
        // Which unmaps the old addresses.
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
}

TEST_CASE("vmm_pool_resource: a trim of an idle pool that fails leaves it to be used" *
          test::needs_virtual_memory) {
  test::fault_sweep{"trim_to"}.run([] {
    vmm_pool_resource pool{first_device, test::at_most(64 * MiB)};
    const stream used{first_device};
    for (int i = 0; i < 2; ++i) {
      void* const one = pool.allocate(used, 8 * MiB);
      fill_async(used, one, 1, 8 * MiB);
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

TEST_CASE("vmm_pool_resource: memory of a default stream comes back where it cannot be marked") {
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

}  // namespace hipvmm::mr

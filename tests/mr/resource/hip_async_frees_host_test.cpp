// SPDX-License-Identifier: MIT
// Frees of hip_async_resource if HIP's pools reuse memory out of order.
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "mr/mr_test.hpp"
#include "runtime/device_gate.hpp"
#include "support/host/host_test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

/// Whether pools are missing, or HIP itself orders their reuse, as CUDA does.
bool frees_are_not_kept() {
  if (device_ref{0}.supports_memory_pools() && host_profile() != "cuda-13") return false;
  MESSAGE("skipped: there are no pools, or their reuse is in order");
  return true;
}

/// The environment of a child that takes HIP's pools for those that need a guard.
const std::vector<std::string> kept_frees{"HIPVMM_CAPABILITY=assume:pools_reuse_in_order=no"};

/// Whether `call` waits, by one of `functions`, until `busy` is released; releases it.
template <std::size_t Size, typename Call>
bool waits_by(const std::array<const char*, Size>& functions, blocked_stream& busy, Call call) {
  const calls_of waits{functions};
  std::atomic<bool> has_returned{false};
  std::thread caller{[&] {
    call();
    has_returned = true;
  }};
  while (waits.count() == 0 && !has_returned) std::this_thread::yield();
  const bool waited = !happens([&] { return has_returned.load(); });
  busy.release();
  caller.join();
  return waited;
}

/// A block that work uses in a stream that stands still.
struct block_in_use {
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream used{device_ref{0}};
  void* const block = resource.allocate(used, MiB);

  block_in_use() { fill_async(used, block, 1, MiB); }
  void deallocate() { resource.deallocate(used, block, MiB); }
};

void verify_refused_alignment() {
  mr::hip_async_resource resource{device_ref{0}};
  const stream used{device_ref{0}};
  int refused = 0;
  // No pool begins all of its blocks at multiples of this.
  for (std::size_t alignment = MiB; alignment <= TiB; alignment *= 2) {
    try {
      resource.deallocate(used, resource.allocate(used, MiB, alignment), MiB, alignment);
    } catch (const std::invalid_argument&) {
      ++refused;
    }
  }
  used.synchronize();
  CHECK(refused > 0);
  CHECK(resource.statistics().used_current == 0);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: an alignment that HIP does not give costs no memory",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  verify_refused_alignment();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: an alignment that CUDA does not give costs no memory",
                    under("cuda-13", "peer_access=yes")) {
  verify_refused_alignment();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: a free in a stream of another device waits for nothing",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const error_recorder reported;
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream of_peer{device_ref{1}};
  void* const block = resource.allocate(of_peer, MiB);
  CHECK_FALSE(
      waits_by(waiting_functions, of_peer, [&] { resource.deallocate(of_peer, block, MiB); }));
  CHECK(reported.count() == 0);
  static_cast<stream_ref>(of_peer).synchronize();
  CHECK(resource.statistics().used_current == 0);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: a free that no event can mark waits for the stream",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const error_recorder reported;
  block_in_use subject;
  const planned_fault fault{"hipEventRecord", 1, hipErrorUnknown};
  CHECK(waits_by(std::array{"hipStreamSynchronize"}, subject.used, [&] { subject.deallocate(); }));
  CHECK(fault.struck());
  CHECK(reported.count() == 1);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: a block that nothing can wait for is kept", kept_frees) {
  if (frees_are_not_kept()) return;
  const error_recorder reported;
  block_in_use subject;
  {
    const planned_faults faults{
        "hipEventRecord error=hipErrorUnknown; hipStreamSynchronize error=hipErrorUnknown; "
        "hipDeviceSynchronize error=hipErrorUnknown; hipFree error=hipErrorUnknown"};
    const call_counter frees{"hipFreeAsync"};
    subject.deallocate();
    CHECK(frees.count() == 0);
  }
  subject.used.release();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: memory that another stream has yet to free is waited for",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const std::size_t most = device_ref{0}.free_memory() / 16 * 10;
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream first{device_ref{0}};
  const stream second{device_ref{0}};
  void* const block = resource.allocate(first, most);
  fill_async(first, block, 1, MiB);
  resource.deallocate(first, block, most);
  void* const again = resource.allocate(second, most);
  CHECK(again == block);
  CHECK_FALSE(second.is_done());
  first.release();
  resource.deallocate(second, again, most);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: memory that a request waits for is not in use",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  for (const bool has_stream : {false, true}) {
    CAPTURE(has_stream);
    const std::size_t most = device_ref{0}.free_memory() / 16 * 10;
    mr::hip_async_resource resource{device_ref{0}};
    blocked_stream first{device_ref{0}};
    const stream second{device_ref{0}};
    void* const block = resource.allocate(first, most);
    fill_async(first, block, 1, MiB);
    if (has_stream)
      resource.deallocate(first, block, most);
    else
      resource.deallocate_sync(block, most);
    watched_thread other{[&] {
      const std::size_t more = most + MiB;
      resource.deallocate(second, resource.allocate(second, more), more);
    }};
    CHECK(other.comes_to_wait());
    CHECK(resource.statistics().used_current == 0);
    first.release();
    other.join();
  }
}

HIPVMM_TEST_CASE_IN("hip_async_resource: a block that served less is as large as before",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream used{device_ref{0}};
  void* const block = resource.allocate(used, MiB);
  resource.deallocate(used, block, MiB);
  void* const less = resource.allocate(used, MiB - 64 * KiB);
  CHECK(less == block);
  resource.deallocate(used, less, MiB - 64 * KiB);
  void* const again = resource.allocate(used, MiB);
  CHECK(again == block);
  resource.deallocate(used, again, MiB);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: where an event cannot be waited for its own device is",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const error_recorder reported;
  auto resource = std::make_unique<mr::hip_async_resource>(device_ref{1});
  blocked_stream used{device_ref{1}};
  void* const block = resource->allocate(used, MiB);
  fill_async(used, block, 1, MiB);
  resource->deallocate(used, block, MiB);
  const planned_fault fault{"hipEventSynchronize", 1, hipErrorUnknown};
  CHECK(waits_by(device_waiting_functions, used, [&] { resource.reset(); }));
  CHECK(fault.struck());
}

void verify_refused_frees() {
  const stream used{device_ref{0}};
  const std::uint64_t before = live_objects().allocations;
  const error_recorder reported;
  {
    mr::hip_async_resource resource{device_ref{0}};
    void* const ordered = resource.allocate(used, MiB);
    void* const unordered = resource.allocate_sync(MiB);
    {
      const planned_faults faults{"hipFreeAsync error=hipErrorUnknown"};
      resource.deallocate(used, ordered, MiB);
      CHECK(reported.count() == 1);
      resource.deallocate_sync(unordered, MiB);
      CHECK_THROWS_AS(static_cast<void>(resource.allocate(used, MiB, TiB)), std::invalid_argument);
      drain_retired_memory();
      resource.deallocate_sync(resource.allocate_sync(KiB), KiB);
    }
  }
  CHECK(comes_true([=] { return live_objects().allocations == before; }, std::chrono::seconds{3}));
}

HIPVMM_TEST_CASE_IN("hip_async_resource: frees that HIP refuses are tried again", kept_frees) {
  if (!frees_are_not_kept()) verify_refused_frees();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: frees that CUDA refuses are tried again",
                    under("cuda-13", "peer_access=yes")) {
  verify_refused_frees();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: memory for which HIP refuses every wait is not freed",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const error_recorder reported;
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream used{device_ref{0}};
  void* const block = resource.allocate(used, MiB);
  fill_async(used, block, 1, MiB);
  resource.deallocate(used, block, MiB);
  {
    const planned_faults faults{
        "hipEventSynchronize error=hipErrorUnknown; hipDeviceSynchronize error=hipErrorUnknown; "
        "hipFree error=hipErrorUnknown; hipMallocFromPoolAsync error=hipErrorOutOfMemory"};
    const call_counter frees{"hipFreeAsync"};
    // All that is kept is freed before the refusal.
    CHECK_THROWS_AS(resource.allocate(used, 8 * MiB), out_of_memory);
    CHECK(frees.count() == 0);
  }
  CHECK(reported.count() > 0);
  used.release();
  stream_ref{used}.synchronize();
  CHECK(resource.statistics().used_current == 0);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: requests wait for blocks that others just free",
                    kept_frees) {
  if (frees_are_not_kept()) return;
  const std::size_t part = device_ref{0}.free_memory() / 16;
  mr::hip_async_resource resource{device_ref{0}};
  blocked_stream first{device_ref{0}};
  // HIP's pool may give all of a block to a smaller request.
  const std::array blocks{resource.allocate(first, 6 * part), resource.allocate(first, 6 * part)};
  for (void* const each : blocks) {
    fill_async(first, each, 1, MiB);
    resource.deallocate_sync(each, 6 * part);
  }
  std::atomic<int> refused{0};
  const auto request = [&] {
    const stream own{device_ref{0}};
    try {
      resource.deallocate(own, resource.allocate(own, 5 * part), 5 * part);
    } catch (const out_of_memory&) {
      ++refused;
    }
  };
  watched_thread one{request};
  CHECK(one.comes_to_wait());
  watched_thread two{request};
  CHECK(two.comes_to_wait());
  first.release();
  one.join();
  two.join();
  CHECK(refused == 0);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: on AMD no event is recorded in an idle stream",
                    under("rocm-7.2", "pools_reuse_in_order=no")) {
  mr::hip_async_resource resource{device_ref{0}};
  const stream used{device_ref{0}};
  void* const block = resource.allocate(used, MiB);
  used.synchronize();
  const call_counter records{"hipEventRecord"};
  const call_counter frees{"hipFreeAsync"};
  resource.deallocate(used, block, MiB);
  CHECK(frees.count() == 1);
  resource.deallocate(used, resource.allocate(used, MiB), MiB);
  CHECK(records.count() == 0);
  CHECK(resource.statistics().used_current == 0);
}

/// Frees that reach HIP's pool while the block's stream works.
std::uint64_t frees_beside_work() {
  mr::hip_async_resource resource{device_ref{0}};
  const blocked_stream used{device_ref{0}};
  void* const block = resource.allocate(used, MiB);
  const call_counter frees{"hipFreeAsync"};
  resource.deallocate(used, block, MiB);
  return frees.count();
}

HIPVMM_TEST_CASE_IN("hip_async_resource: where HIP's pools need no guard, frees are theirs",
                    {"HIPVMM_CAPABILITY=assume:pools_reuse_in_order=yes,pool_frees_return=yes"}) {
  if (frees_are_not_kept()) return;
  CHECK(frees_beside_work() == 1);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: where frees hold up the host, they are kept",
                    {"HIPVMM_CAPABILITY=assume:pools_reuse_in_order=yes,pool_frees_return=no"}) {
  if (frees_are_not_kept()) return;
  CHECK(frees_beside_work() == 0);
}

/// Memory that another thread frees, which waits for a stream until that is released.
class slow_free {
 public:
  slow_free() {
    const call_counter frees{"hipFree"};
    caller_ = std::thread{[this] { memory_.reset(); }};
    while (frees.count() == 0) std::this_thread::yield();
  }
  ~slow_free() {
    used_.release();
    caller_.join();
  }
  slow_free& operator=(slow_free&&) = delete;

 private:
  std::optional<device_allocation> memory_{std::in_place, device_ref{0}, MiB};
  blocked_stream used_{device_ref{0}};
  std::thread caller_;
};

/// How long the end of a resource takes while another thread frees memory, for longer.
std::chrono::steady_clock::duration end_beside_free() {
  std::optional<mr::hip_async_resource> resource{std::in_place, device_ref{0}};
  const call_counter ends{"hipMemPoolDestroy"};
  slow_free freed;
  const auto begin = std::chrono::steady_clock::now();
  resource.reset();
  CHECK(ends.count() == 1);
  return std::chrono::steady_clock::now() - begin;
}

HIPVMM_TEST_CASE_IN(
    "hip_async_resource: its pool ends behind what other threads free, or after a time",
    kept_frees) {
  if (frees_are_not_kept()) return;
  CHECK(end_beside_free() >= detail::pool_patience);
}

HIPVMM_TEST_CASE_IN("hip_async_resource: on CUDA its pool ends beside what others free",
                    under("cuda-13", "peer_access=yes")) {
  // A busy machine may hold up one of them.
  CHECK(std::min({end_beside_free(), end_beside_free(), end_beside_free()}) <
        detail::pool_patience);
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include <barrier>

#include <hipvmm/mr/adaptor/aligned_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/failure_callback_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/prefetch_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/thread_safe_resource_adaptor.hpp>
#include <hipvmm/mr/resource/managed_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include <hipvmm/testing/resource_contract.hpp>
#include "mr/mr_test.hpp"
#include "support/host/allocation_failure.hpp"
#include "support/resource/paper_resource.hpp"
#include "support/resource/pretending_resource.hpp"
#include "support/resource/scripted_resource.hpp"

namespace hipvmm::mr {
namespace {

using test::first_device;
const stream_ref any_stream{static_cast<ihipStream_t*>(nullptr)};

std::size_t address(const void* pointer) { return reinterpret_cast<std::size_t>(pointer); }

}  // namespace

TEST_CASE("failure_callback_resource_adaptor: tries again for as long as the callback wants") {
  hip_resource memory{first_device};
  test::scripted_resource upstream{&memory, [](std::size_t nth, std::size_t) {
                                     if (nth % 3 != 0) throw std::bad_alloc{};
                                   }};
  std::vector<std::size_t> asked;
  failure_callback_resource_adaptor retrying{
      &upstream,
      [](std::size_t bytes, void* list) {
        static_cast<std::vector<std::size_t>*>(list)->push_back(bytes);
        return true;
      },
      &asked};
  const stream used{first_device};
  retrying.deallocate(used, retrying.allocate(used, 1000), 1000);
  CHECK(asked == std::vector<std::size_t>{1000, 1000});
  retrying.deallocate_sync(retrying.allocate_sync(2000), 2000);
  CHECK(asked == std::vector<std::size_t>{1000, 1000, 2000, 2000});
}

TEST_CASE("failure_callback_resource_adaptor: a request that is given up fails as it did") {
  hip_resource memory{first_device};
  limiting_resource_adaptor upstream{&memory, KiB};
  int calls = 0;
  failure_callback_resource_adaptor retrying{&upstream,
                                             [&](std::size_t, void*) { return ++calls % 2 != 0; }};
  CHECK_THROWS_WITH_AS(retrying.allocate_sync(2 * KiB), doctest::Contains("limit reached"),
                       out_of_memory);
  CHECK(calls == 2);
  CHECK_THROWS_AS(retrying.allocate(any_stream, 2 * KiB), out_of_memory);
  CHECK(calls == 4);
}

TEST_CASE("failure_callback_resource_adaptor: is not asked of anything but std::bad_alloc") {
  hip_resource memory{first_device};
  test::scripted_resource upstream{
      &memory, [](std::size_t, std::size_t) { throw std::invalid_argument{"not memory"}; }};
  int calls = 0;
  failure_callback_resource_adaptor retrying{&upstream,
                                             [&](std::size_t, void*) { return ++calls < 3; }};
  CHECK_THROWS_AS(retrying.allocate_sync(KiB), std::invalid_argument);
  CHECK(calls == 0);
}

TEST_CASE("failure_callback_resource_adaptor: the callback may allocate, free and throw") {
  hip_resource memory{first_device};
  limiting_resource_adaptor upstream{&memory, 2 * KiB};
  std::vector<void*> held;
  failure_callback_resource_adaptor* top = nullptr;
  failure_callback_resource_adaptor retrying{&upstream, [&](std::size_t, void*) -> bool {
                                               if (held.empty())
                                                 throw std::runtime_error{"nothing left to free"};
                                               top->deallocate_sync(held.back(), KiB);
                                               held.pop_back();
                                               top->deallocate_sync(top->allocate_sync(KiB), KiB);
                                               return true;
                                             }};
  top = &retrying;
  for (int block = 0; block < 2; ++block) held.push_back(retrying.allocate_sync(KiB));
  void* const large = retrying.allocate_sync(2 * KiB);
  CHECK(held.empty());
  CHECK_THROWS_WITH_AS(retrying.allocate_sync(1), "nothing left to free", std::runtime_error);
  CHECK(upstream.get_allocated_bytes() == 2 * KiB);
  retrying.deallocate_sync(large, 2 * KiB);
}

TEST_CASE("failure_callback_resource_adaptor: callbacks of two threads run at the same time") {
  test::paper_resource memory;
  test::scripted_resource upstream{&memory,
                                   [](std::size_t, std::size_t) { throw std::bad_alloc{}; }};
  std::barrier both{2};
  failure_callback_resource_adaptor retrying{&upstream, [&](std::size_t, void*) {
                                               both.arrive_and_wait();
                                               return false;
                                             }};
  const auto fails = [&] { CHECK_THROWS_AS(retrying.allocate_sync(1), std::bad_alloc); };
  std::future<void> other = std::async(std::launch::async, fails);
  fails();
  other.get();
  CHECK(upstream.allocations() == 2);
}

TEST_CASE("failure_callback_resource_adaptor: no upstream and no callback are refused") {
  test::paper_resource upstream;
  const auto gives_up = [](std::size_t, void*) { return false; };
  CHECK_THROWS_AS(failure_callback_resource_adaptor(nullptr, gives_up), std::invalid_argument);
  CHECK_THROWS_AS(failure_callback_resource_adaptor(&upstream, nullptr), std::invalid_argument);
}

TEST_CASE("aligned_resource_adaptor: keeps the contract at alignments its upstream does not know") {
  hip_resource memory{first_device};
  statistics_resource_adaptor upstream{&memory};
  {
    aligned_resource_adaptor aligned{&upstream, 4 * KiB};
    CHECK_NOTHROW(verify_resource({aligned, first_device, 16 * KiB, 4 * MiB}));
  }
  CHECK(upstream.get_bytes_counter().value == 0);
}

TEST_CASE("aligned_resource_adaptor: aligns from its threshold on, and what asks for it itself") {
  test::paper_resource upstream;
  aligned_resource_adaptor aligned{&upstream, 4 * KiB, 1000};
  void* const large = aligned.allocate(any_stream, 1000);
  CHECK(address(large) % (4 * KiB) == 0);
  CHECK(upstream.last_bytes() == 8 * KiB - 256);
  void* const small = aligned.allocate(any_stream, 999);
  CHECK(upstream.last_bytes() == 999);
  void* const own = aligned.allocate_sync(999, 64 * KiB);
  CHECK(address(own) % (64 * KiB) == 0);
  CHECK(upstream.last_bytes() == 128 * KiB - 256);
  aligned.deallocate(any_stream, large, 1000);
  aligned.deallocate_sync(small, 999);
  aligned.deallocate_sync(own, 999, 64 * KiB);
  CHECK(upstream.bytes_out() == 0);
}

TEST_CASE("aligned_resource_adaptor: sizes and alignments without end are std::bad_alloc") {
  test::paper_resource upstream;
  aligned_resource_adaptor aligned{&upstream, 4 * KiB};
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} / 2, ~std::size_t{0} - 4096})
    CHECK_THROWS_AS(aligned.allocate_sync(bytes), std::bad_alloc);
  for (const std::size_t bits : {61, 62, 63})
    CHECK_THROWS_AS(aligned.allocate_sync(1, std::size_t{1} << bits), std::bad_alloc);
  CHECK(upstream.bytes_out() == 0);
}

TEST_CASE("aligned_resource_adaptor: wrong sizes are told, and the upstream gets what it gave") {
  test::paper_resource upstream;
  aligned_resource_adaptor aligned{&upstream, 4 * KiB, 1000};
  const test::error_recorder told;
  aligned.deallocate_sync(aligned.allocate_sync(10'000), 20'000);
  aligned.deallocate_sync(aligned.allocate_sync(10'000), 999);
  CHECK(told.count() == 2);
  CHECK(upstream.bytes_out() == 0);
  void* const small = aligned.allocate_sync(999);
  aligned.deallocate_sync(small, 10'000);
  REQUIRE(told.count() == 3);
  CHECK(told.errors()[2].message.find("nothing was freed") != std::string::npos);
  aligned.deallocate_sync(small, 999);
  CHECK(upstream.bytes_out() == 0);
}

// Replaces operator new, which a ThreadSanitizer does itself.
#ifndef __SANITIZE_THREAD__
TEST_CASE("aligned_resource_adaptor: without memory of the host nothing stays out") {
  test::paper_resource upstream;
  aligned_resource_adaptor aligned{&upstream, 4 * KiB};
  bool struck = true;
  for (std::uint64_t nth = 1; struck; ++nth) {
    void* given = nullptr;
    {
      const test::allocation_failure failure{nth};
      try {
        given = aligned.allocate(any_stream, KiB);
      } catch (const std::bad_alloc&) {
      }
      struck = failure.struck();
    }
    CHECK((given == nullptr) == struck);
    if (given == nullptr) CHECK(upstream.bytes_out() == 0);
    aligned.deallocate(any_stream, given, KiB);
  }
  CHECK(upstream.bytes_out() == 0);
}
#endif

TEST_CASE("thread_safe_resource_adaptor: one thread at a time is in its upstream") {
  test::paper_resource memory;
  std::atomic<bool> is_inside{false};
  std::atomic<int> met{0};
  test::scripted_resource upstream{&memory, [&](std::size_t, std::size_t) {
                                     if (is_inside.exchange(true)) ++met;
                                     std::this_thread::yield();
                                     is_inside = false;
                                   }};
  thread_safe_resource_adaptor guarded{&upstream};
  std::barrier together{4};
  test::in_threads(4, [&](int) {
    together.arrive_and_wait();
    for (int round = 0; round < 500; ++round) {
      guarded.deallocate(any_stream, guarded.allocate(any_stream, 100), 100);
      guarded.deallocate_sync(guarded.allocate_sync(100), 100);
    }
  });
  CHECK(met == 0);
  CHECK(memory.bytes_out() == 0);
}

TEST_CASE("thread_safe_resource_adaptor: what its upstream calls back may use it") {
  test::paper_resource memory;
  memory_resource* top = nullptr;
  void* held = nullptr;
  test::scripted_resource upstream{&memory, [&](std::size_t, std::size_t) {
                                     top->deallocate_sync(std::exchange(held, nullptr), KiB);
                                   }};
  thread_safe_resource_adaptor guarded{&upstream};
  top = &guarded;
  held = guarded.allocate_sync(KiB);
  void* const second = guarded.allocate_sync(KiB);
  CHECK(held == nullptr);
  CHECK(memory.bytes_out() == KiB);
  guarded.deallocate_sync(second, KiB);
}

TEST_CASE(
    "prefetch_resource_adaptor: moves what it gives to the upstream's device or the current") {
  HIPVMM_SKIP_IF(
      !first_device.supports_managed_memory() || !first_device.supports_concurrent_managed_access(),
      "managed memory does not move here");
  managed_resource managed;
  const device_ref last{device_count() - 1};
  for (const bool is_of_last : {false, true}) {
    test::pretending_resource upstream{&managed, is_of_last ? std::optional{last} : std::nullopt};
    prefetch_resource_adaptor ahead{&upstream};
    const stream used{first_device};
    void* const ordered = ahead.allocate(used, KiB);
    void* const at_once = ahead.allocate_sync(KiB);
    used.synchronize();
    const memory_location target = is_of_last ? last : device_ref::current();
    CHECK(last_prefetch_location(ordered, KiB) == target);
    CHECK(last_prefetch_location(at_once, KiB) == target);
    ahead.deallocate(used, ordered, KiB);
    ahead.deallocate_sync(at_once, KiB);
  }
}

TEST_CASE("prefetch_resource_adaptor: memory that does not move is refused and freed") {
  hip_resource plain{first_device};
  CHECK_THROWS_WITH_AS(prefetch_resource_adaptor{&plain}, doctest::Contains("managed_resource"),
                       std::invalid_argument);
  HIPVMM_SKIP_IF(!first_device.supports_concurrent_managed_access(),
                 "even managed memory does not move on this device");
  statistics_resource_adaptor counted{&plain};
  test::pretending_resource upstream{&counted, first_device};
  prefetch_resource_adaptor ahead{&upstream};
  const stream used{first_device};
  HIPVMM_SKIP_IF(HIPVMM_TEST_ON_AMD != 0,
                 "AMD's runtime leaves it to ROCr and the kernel to refuse (6.4.3, 7.2.4)");
  CHECK_THROWS_AS(ahead.allocate(used, KiB), std::invalid_argument);
  CHECK_THROWS_AS(ahead.allocate_sync(KiB), std::invalid_argument);
  CHECK(counted.get_allocations_counter().value == 0);
  CHECK(counted.get_allocations_counter().total == 2);
}

}  // namespace hipvmm::mr

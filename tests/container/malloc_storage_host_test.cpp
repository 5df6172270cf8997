// SPDX-License-Identifier: MIT
// Memory of a vector on hipMalloc, for devices whose virtual memory cannot be used.
#include <hipvmm/runtime/device_allocation.hpp>
#include "container/container_test.hpp"
#include "container/malloc_storage.hpp"
#include "runtime/device_gate.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"
#include "support/is_ready.hpp"
#include "support/process/child_case.hpp"
#include "support/process/forked_child.hpp"
#include "support/region/region_contents.hpp"

TEST_SUITE_BEGIN("on hipMalloc");

namespace hipvmm::test {
namespace {

struct sixteen_granules {
  const std::size_t unit = granule();
  hipvmm::stream stream;
  detail::malloc_storage memory{first_device, 16 * unit};
};

TEST_CASE_FIXTURE(sixteen_granules, "malloc_storage: a new one allocates nothing") {
  CHECK(live_objects().allocations == 0);
  CHECK(memory.base() == nullptr);
  CHECK(memory.max_bytes() == 16 * unit);
  CHECK(memory.committed_bytes() == 0);
  CHECK(memory.chunk_count() == 0);
  CHECK_FALSE(memory.is_address_stable());
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: commit of what is backed or of nothing makes no HIP call") {
  memory.commit(0, 4 * unit);
  const std::uint64_t calls = hipvmm_host_call_count(nullptr);
  memory.commit(unit, 2 * unit);
  memory.commit(16 * unit, 0);
  CHECK(hipvmm_host_call_count(nullptr) == calls);
}

TEST_CASE_FIXTURE(sixteen_granules, "malloc_storage: a first commit waits for nothing") {
  blocked_stream busy{first_device};
  const calls_of waits{waiting_functions};
  memory.commit(0, unit);
  CHECK(waits.count() == 0);
  CHECK_FALSE(busy.is_done());
}

TEST_CASE("malloc_storage: growth waits for work of every device with access") {
  for (const device_ref device : {first_device, second_device}) {
    CAPTURE(device.ordinal());
    const std::size_t unit = granule();
    detail::malloc_storage memory{first_device, 16 * unit};
    memory.grant(second_device);
    memory.commit(0, unit);
    blocked_stream writer{device};
    fill_async(writer, memory.base(), 0x42, unit);
    const call_counter waits{"hipDeviceSynchronize"};
    auto growing = std::async(std::launch::async, [&] { memory.commit(unit, unit); });
    // The write comes when growth waits for its device, the first or the second in turn, or has
    // not.
    const auto turn = static_cast<std::uint64_t>(device.ordinal()) + 1;
    while (waits.count() < turn && !is_ready(growing)) std::this_thread::yield();
    writer.release();
    growing.get();
    CHECK(read_bytes(stream{}, memory.base(), unit) == byte_vector(unit, 0x42));
  }
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: a peer that was granted uses what growth allocates") {
  memory.grant(second_device);
  memory.commit(0, unit);
  memory.commit(unit, unit);
  const hipvmm::stream of_peer{second_device};
  fill_async(of_peer, memory.base(), 7, 2 * unit);
  CHECK(read_bytes(of_peer, memory.base(), 2 * unit) == byte_vector(2 * unit, 7));
  CHECK(memory.rights().get(second_device) == access_right::read_write);
  memory.grant(second_device, access_right::none);
  CHECK(memory.rights().get(second_device) == access_right::none);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: rights that hipMalloc cannot give are refused") {
  CHECK_THROWS_WITH_AS(memory.grant(second_device, access_right::read),
                       doctest::Contains("ask for access_right::read_write"), unsupported);
  CHECK_THROWS_AS(memory.grant(first_device, access_right::none), unsupported);
  CHECK_THROWS_AS(memory.grant(device_ref{2}), unsupported);
  // All of a list or none of it.
  CHECK_THROWS_AS(memory.set_access({{second_device, access_right::read_write},
                                     {first_device, access_right::read}}),
                  unsupported);
  CHECK(memory.rights().get(second_device) == access_right::none);
  CHECK(memory.rights().get(first_device) == access_right::read_write);
}

TEST_CASE("malloc_storage: chunks to share are refused with the reason and the way out") {
  const region_options options{.shareable = handle_type::posix_fd};
  for (const char* part : {"virtual_memory: ", "set it to handle_type::none"})
    CHECK_THROWS_WITH_AS((detail::malloc_storage{first_device, granule(), options}),
                         doctest::Contains(part), unsupported);
}

TEST_CASE_FIXTURE(sixteen_granules, "malloc_storage: prepare makes nothing") {
  memory.commit(0, unit);
  const std::uint64_t calls = hipvmm_host_call_count(nullptr);
  memory.prepare(unit, prefetch_level::mapped);
  CHECK(memory.cancel_or_wait() == 0);
  CHECK(memory.failed_preparations() == 0);
  CHECK(hipvmm_host_call_count(nullptr) == calls);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: extend raises the bound and keeps the contents") {
  memory.commit(0, unit);
  write_tags(memory, 0, 1, 1, stream);
  void* const base = memory.base();
  CHECK_FALSE(memory.extend(32 * unit, unit));
  CHECK(memory.base() == base);
  CHECK(memory.extend(64 * unit, 20 * unit));
  CHECK(memory.max_bytes() == 64 * unit);
  CHECK(memory.committed_bytes() == 20 * unit);
  check_tags(memory, 0, 1, 1, stream);
}

/// Four granules, which a stream that stands still is about to fill.
struct memory_in_use {
  const std::size_t unit = granule();
  detail::malloc_storage memory;
  blocked_stream stream;

  explicit memory_in_use(device_ref device = first_device)
      : memory{device, 16 * unit}, stream{device} {
    memory.commit(0, 4 * unit);
    fill_async(stream, memory.base(), 0x42, 4 * unit);
  }
};

TEST_CASE("malloc_storage: trim of one in use waits for nothing and comes back behind it") {
  memory_in_use subject;
  const calls_of waits{waiting_functions};
  CHECK(subject.memory.trim(0, subject.stream) == 4 * subject.unit);
  CHECK(subject.memory.base() == nullptr);
  CHECK(subject.memory.committed_bytes() == 0);
  CHECK(retired_memory().waiting_bytes == 4 * subject.unit);
  CHECK(waits.count() == 0);
  CHECK(live_objects().allocations == 1);
  subject.stream.release();
  drain_retired_memory();
  CHECK(live_objects().allocations == 0);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: a grant lets the device reach the memory of the owner") {
  const call_counter enabled{"hipDeviceEnablePeerAccess"};
  memory.grant(second_device);
  CHECK(enabled.count() == 1);
  memory.grant(first_device);
  CHECK(enabled.count() == 1);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: growth returns when the bytes are there for every stream") {
  memory.commit(0, 4 * unit);
  // Else the end of the stream that copies waits as well.
  detail::set_device_wait_rules({true, false});
  const call_counter waits{"hipStreamSynchronize"};
  memory.commit(4 * unit, 4 * unit);
  CHECK(waits.count() == 1);
  const capability known = capability_of(first_device);
  detail::set_device_wait_rules(
      {known.has(trait::counts_ending_streams), known.has(trait::free_waits)});
}

TEST_CASE("malloc_storage: trim waits for a stream of a device without access") {
  memory_in_use subject;
  subject.stream.release();
  static_cast<stream_ref>(subject.stream).synchronize();
  blocked_stream stranger{device_ref{2}};
  const call_counter waits{"hipStreamSynchronize"};
  std::atomic<bool> has_returned{false};
  std::thread trimming{[&] {
    subject.memory.trim(0, stranger);
    has_returned = true;
  }};
  while (waits.count() == 0 && !has_returned) std::this_thread::yield();
  CHECK_FALSE(has_returned);
  stranger.release();
  trimming.join();
  CHECK(subject.memory.committed_bytes() == 0);
}

TEST_CASE_FIXTURE(memory_in_use, "malloc_storage: retire of one in use waits for nothing") {
  memory.retire();
  CHECK_FALSE(stream.is_done());
  CHECK(live_objects().allocations == 1);
  stream.release();
  drain_retired_memory();
  CHECK(live_objects().allocations == 0);
}

TEST_CASE("malloc_storage: destruction waits for no other work of the device") {
  blocked_stream busy{first_device};
  {
    detail::malloc_storage idle{first_device, granule()};
    idle.commit(0, granule());
  }
  CHECK_FALSE(busy.is_done());
  busy.release();
  drain_retired_memory();
  CHECK(live_objects().allocations == 0);
}

TEST_CASE("malloc_storage: no device's hipFree holds up what another device used") {
  blocked_stream busy{first_device};
  memory_in_use first;
  memory_in_use second{second_device};
  const call_counter frees{"hipFree"};
  first.memory.trim(0, first.stream);
  second.memory.trim(0, second.stream);
  // Its own stream has passed, and hipFree goes on waiting for the one that is busy.
  first.stream.release();
  static_cast<stream_ref>(first.stream).synchronize();
  REQUIRE(comes_true([&] { return frees.count() != 0; }));
  second.stream.release();
  while (retired_memory().waiting != 1) std::this_thread::yield();
  CHECK(live_objects().allocations == 1);
  CHECK_FALSE(busy.is_done());
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: trim without memory for the smaller one keeps all") {
  memory.commit(0, 10 * unit);
  write_tags(memory, 0, 10, 1, stream);
  const device_allocation rest{first_device, free_memory_at_rest(first_device)};
  CHECK(memory.trim(unit, stream, tail_chunk::replace) == 0);
  check_tags(memory, 0, 10, 1, stream);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: growth on a full device says what is held and keeps it") {
  memory.commit(0, 4 * unit);
  write_tags(memory, 0, 4, 1, stream);
  void* const base = memory.base();
  const device_allocation rest{first_device, free_memory_at_rest(first_device) - 7 * unit};
  CHECK_THROWS_WITH_AS(memory.commit(4 * unit, 4 * unit),
                       doctest::Contains("the vector holds 8.00 MiB of hipMalloc"), out_of_memory);
  CHECK_THROWS_WITH_AS(memory.commit(4 * unit, 4 * unit),
                       doctest::Contains("reserve() all at the start"), out_of_memory);
  CHECK(memory.base() == base);
  CHECK(memory.committed_bytes() == 4 * unit);
  check_tags(memory, 0, 4, 1, stream);
  memory.commit(4 * unit, 3 * unit);
  CHECK(memory.committed_bytes() == 7 * unit);
  check_tags(memory, 0, 4, 1, stream);
}

TEST_CASE_FIXTURE(sixteen_granules,
                  "malloc_storage: growth on a full device has what was retired before") {
  const std::size_t all = free_memory_at_rest(first_device);
  for (int turn = 0; turn < 4; ++turn) {
    detail::malloc_storage most{first_device, all};
    most.commit(0, align_down(all, unit));
    most.retire();
  }
  memory.commit(0, 16 * unit);
  CHECK(memory.committed_bytes() == 16 * unit);
}

using fixture_ptr = std::unique_ptr<sixteen_granules>;

/// Three granules with tags and a peer.
fixture_ptr make_subject() {
  auto subject = std::make_unique<sixteen_granules>();
  subject->memory.grant(second_device);
  subject->memory.commit(0, 3 * subject->unit);
  write_tags(subject->memory, 0, 3, 1, subject->stream);
  drain_retired_memory();
  return subject;
}

void check_unchanged(sixteen_granules& subject) {
  CHECK(subject.memory.max_bytes() == 16 * subject.unit);
  CHECK(subject.memory.committed_bytes() == 3 * subject.unit);
  CHECK(subject.memory.rights().get(second_device) == access_right::read_write);
  check_tags(subject.memory, 0, 3, 1, subject.stream);
}

TEST_CASE("malloc_storage: growth that fails leaves it as it was") {
  const std::size_t unit = granule();
  fault_sweep{"commit"}.run(
      make_subject, [&](auto& subject) { subject.memory.commit(3 * unit, 2 * unit); },
      check_unchanged,
      [&](auto& subject) {
        CHECK(subject.memory.committed_bytes() == 5 * unit);
        check_tags(subject.memory, 0, 3, 1, subject.stream);
      });
}

TEST_CASE("malloc_storage: a first commit that fails leaves nothing") {
  fault_sweep{"commit"}.run<sixteen_granules>(
      [](auto& subject) { subject.memory.commit(0, subject.unit); },
      [](auto& subject) { CHECK(subject.memory.base() == nullptr); },
      [](auto& subject) { CHECK(subject.memory.committed_bytes() != 0); });
}

TEST_CASE("malloc_storage: extend that fails leaves it as it was") {
  const std::size_t unit = granule();
  fault_sweep{"extend"}.run(
      make_subject, [&](auto& subject) { subject.memory.extend(32 * unit, 20 * unit); },
      check_unchanged,
      [&](auto& subject) {
        CHECK(subject.memory.max_bytes() == 32 * unit);
        CHECK(subject.memory.committed_bytes() == 20 * unit);
        check_tags(subject.memory, 0, 3, 1, subject.stream);
      });
}

TEST_CASE("malloc_storage: trim that fails leaves it as it was") {
  const std::size_t unit = granule();
  fault_sweep{"trim to nothing"}.run(
      make_subject, [](auto& subject) { subject.memory.trim(0, subject.stream); }, check_unchanged,
      [](auto& subject) { CHECK(subject.memory.base() == nullptr); });
  // If there is no memory for the smaller allocation the larger one stays.
  fault_sweep{"trim to one"}.run(
      make_subject,
      [&](auto& subject) { subject.memory.trim(unit, subject.stream, tail_chunk::replace); },
      check_unchanged, [](auto& subject) { check_tags(subject.memory, 0, 1, 1, subject.stream); });
}

TEST_CASE("malloc_storage: trim of one in use that fails leaves it as it was") {
  fault_sweep{"trim in use"}.run(
      [] {
        auto subject = make_subject();
        // Its work is done before anything here waits, so that the sweep may drain.
        fill_async(subject->stream, advance(subject->memory.base(), tag_bytes), 1,
                   subject->unit - 2 * tag_bytes);
        return subject;
      },
      [](auto& subject) { subject.memory.trim(0, subject.stream); }, check_unchanged,
      [](auto& subject) { CHECK(subject.memory.base() == nullptr); });
}

TEST_CASE("malloc_storage: rights of its options are there from the start") {
  const region_options options{.access = {{second_device, access_right::read_write}}};
  detail::malloc_storage memory{first_device, granule(), options};
  CHECK(memory.rights().get(second_device) == access_right::read_write);
  memory.commit(0, granule());
  const hipvmm::stream of_peer{second_device};
  fill_async(of_peer, memory.base(), 7, granule());
  of_peer.synchronize();
  memory.set_access({});
  CHECK(memory.rights().get(second_device) == access_right::none);
}

TEST_CASE("malloc_storage: a grant that fails gives no right") {
  fault_sweep{"grant"}.run<sixteen_granules>(
      [](auto& subject) { subject.memory.grant(second_device); },
      [](auto& subject) {
        CHECK(subject.memory.rights().get(second_device) == access_right::none);
      },
      [](auto& subject) {
        CHECK(subject.memory.rights().get(second_device) == access_right::read_write);
      });
}

TEST_CASE("malloc_storage: its end in a child of fork() calls no HIP") {
  std::optional<detail::malloc_storage> one{std::in_place, first_device, granule()};
  detail::malloc_storage other{first_device, granule()};
  one->commit(0, granule());
  other.commit(0, granule());
  CHECK(succeeds_in_forked_child([&] {
    const call_counter calls{nullptr};
    one.reset();
    other.retire();
    return calls.count() == 0;
  }));
}

/// Used by a stream of a peer when it is trimmed, after the library's exit handler has run: nothing
/// can be retired then.
struct trimmed_late {
  detail::malloc_storage memory{first_device, granule()};

  trimmed_late() {
    memory.grant(second_device);
    memory.commit(0, granule());
  }
  ~trimmed_late() {
    blocked_stream used{second_device};
    fill_async(used, memory.base(), 1, granule());
    const calls_of waits{waiting_functions};
    std::atomic<bool> has_returned{false};
    std::thread releasing{[&] {
      while (waits.count() == 0 && !has_returned) std::this_thread::yield();
      // Long enough to come back from a wait for something else.
      if (!happens([&] { return has_returned.load(); })) used.release();
    }};
    memory.trim(0, used);
    const bool was_waited_for = used.is_done();
    has_returned = true;
    releasing.join();
    if (!was_waited_for) std::_Exit(9);
  }
};

HIPVMM_TEST_CASE_BY(
    check_ends_well,
    "malloc_storage: after the library's exit handler a trim waits for the stream itself") {
  // Constructed before the library's handler is registered, and so destroyed after it has run.
  static const trimmed_late kept;
  detail::malloc_storage retired{first_device, granule()};
  retired.commit(0, granule());
  retired.retire();
  std::exit(0);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

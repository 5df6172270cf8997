// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/limiting_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/mr/resource/callback_resource.hpp>
#include "mr/mr_test.hpp"
#include "support/resource/scripted_resource.hpp"

namespace hipvmm::mr {
namespace {

using counter = statistics_resource_adaptor::counter;
using counters = statistics_resource_adaptor::counters;

using test::first_device;

bool is(const counter& seen, std::int64_t value, std::int64_t peak, std::int64_t total) {
  INFO("value " << seen.value << ", peak " << seen.peak << ", total " << seen.total);
  CHECK(seen.value == value);
  CHECK(seen.peak == peak);
  CHECK(seen.total == total);
  return seen.value == value && seen.peak == peak && seen.total == total;
}

void refuse(std::size_t, std::size_t) { throw std::bad_alloc{}; }

// Four threads, each with up to three blocks of 1000 bytes at a time; refused ones are left out.
void four_threads(memory_resource& resource) {
  test::in_threads(4, [&resource](int) {
    const stream used{first_device};
    for (int round = 0; round < 50; ++round) {
      std::vector<void*> held;
      try {
        while (held.size() < 3) held.push_back(resource.allocate(used, 1000));
      } catch (const std::bad_alloc&) {
      }
      for (void* each : held) resource.deallocate(used, each, 1000);
    }
  });
}

}  // namespace

TEST_CASE("statistics_resource_adaptor: counts by powers of two") {
  hip_resource upstream{first_device};
  statistics_resource_adaptor counted{&upstream};
  const stream used{first_device};
  void* const first = counted.allocate(used, 1024);
  void* const second = counted.allocate_sync(2047);
  void* const third = counted.allocate(used, 1);
  counted.deallocate(used, second, 2047);
  void* const fourth = counted.allocate(used, 1500);
  const auto sizes = counted.get_size_classes();
  CHECK(sizes[10].allocations == 3);
  CHECK(sizes[10].bytes == 1024 + 1500);
  CHECK(sizes[10].peak_bytes == 1024 + 2047);
  CHECK(sizes[0].allocations == 1);
  CHECK(sizes[0].bytes == 1);
  CHECK(sizes[11].allocations == 0);
  counted.deallocate(used, first, 1024);
  counted.deallocate_sync(third, 1);
  counted.deallocate(used, fourth, 1500);
  for (const auto& each : counted.get_size_classes()) CHECK(each.bytes == 0);
}

TEST_CASE("statistics_resource_adaptor: latencies are measured where they are asked for") {
  hip_resource upstream{first_device};
  const auto sum = [](const statistics_resource_adaptor::latencies& of) {
    std::uint64_t calls = 0;
    for (const std::uint64_t each : of) calls += each;
    return calls;
  };
  statistics_resource_adaptor untimed{&upstream};
  statistics_resource_adaptor counted{&untimed, latency_timing::on};
  const stream used{first_device};
  void* const first = counted.allocate(used, 1000);
  void* const second = counted.allocate_sync(1000);
  counted.deallocate(used, first, 1000);
  CHECK(sum(counted.get_allocate_latencies()) == 2);
  CHECK(sum(counted.get_deallocate_latencies()) == 1);
  counted.deallocate_sync(second, 1000);
  CHECK(sum(counted.get_deallocate_latencies()) == 2);
  CHECK(sum(untimed.get_allocate_latencies()) == 0);
  CHECK(sum(untimed.get_deallocate_latencies()) == 0);
}

TEST_CASE("statistics_resource_adaptor: counts bytes and allocations, by either way") {
  hip_resource upstream{first_device};
  statistics_resource_adaptor counted{&upstream};
  const stream used{first_device};
  void* const first = counted.allocate(used, 1000);
  void* const second = counted.allocate_sync(500);
  counted.deallocate_sync(first, 1000);
  void* const third = counted.allocate(used, 200);
  CHECK(is(counted.get_bytes_counter(), 700, 1500, 1700));
  CHECK(is(counted.get_allocations_counter(), 2, 2, 3));
  counted.deallocate(used, second, 500);
  counted.deallocate(used, third, 200);
  CHECK(is(counted.get_bytes_counter(), 0, 1500, 1700));
  CHECK(is(counted.get_allocations_counter(), 0, 2, 3));
}

TEST_CASE("statistics_resource_adaptor: a level that ends is taken over by the one around it") {
  hip_resource upstream{first_device};
  statistics_resource_adaptor counted{&upstream};
  void* const outer = counted.allocate_sync(1000);
  CHECK(is(counted.push_counters().first, 1000, 1000, 1000));
  void* const inner = counted.allocate_sync(300);
  // Older than the level.
  counted.deallocate_sync(outer, 1000);
  void* const later = counted.allocate_sync(900);
  const counters ended = counted.pop_counters();
  CHECK(is(ended.first, 200, 300, 1200));
  CHECK(is(ended.second, 1, 1, 2));
  CHECK(is(counted.get_bytes_counter(), 1200, 1300, 2200));
  CHECK(is(counted.get_allocations_counter(), 2, 2, 3));
  counted.deallocate_sync(inner, 300);
  counted.deallocate_sync(later, 900);
}

TEST_CASE("statistics_resource_adaptor: ending a level that was not begun is refused") {
  hip_resource upstream{first_device};
  statistics_resource_adaptor counted{&upstream};
  counted.push_counters();
  counted.pop_counters();
  CHECK_THROWS_AS(counted.pop_counters(), std::out_of_range);
  CHECK(is(counted.get_bytes_counter(), 0, 0, 0));
}

TEST_CASE(
    "statistics_resource_adaptor: what the upstream refuses is in no count, size or latency") {
  hip_resource memory{first_device};
  test::scripted_resource upstream{&memory, refuse};
  statistics_resource_adaptor counted{&upstream, latency_timing::on};
  const stream used{first_device};
  CHECK_THROWS_AS(counted.allocate(used, 1000), std::bad_alloc);
  CHECK_THROWS_AS(counted.allocate_sync(1000), std::bad_alloc);
  CHECK(is(counted.get_bytes_counter(), 0, 0, 0));
  CHECK(is(counted.get_allocations_counter(), 0, 0, 0));
  CHECK(counted.get_size_classes()[9].allocations == 0);
  for (const std::uint64_t each : counted.get_allocate_latencies()) CHECK(each == 0);
}

TEST_CASE("statistics_resource_adaptor: more that comes back than is out is told, not counted") {
  hip_resource upstream{first_device};
  statistics_resource_adaptor counted{&upstream};
  void* const block = counted.allocate_sync(1000);
  counted.push_counters();
  const test::error_recorder told;
  counted.deallocate_sync(block, 1001);
  REQUIRE(told.count() == 1);
  CHECK(told.errors()[0].message.find("1001 bytes are freed while 1000") != std::string::npos);
  CHECK(is(counted.get_bytes_counter(), -1000, 0, 0));
  counted.pop_counters();
  CHECK(is(counted.get_bytes_counter(), 0, 1000, 1000));
}

TEST_CASE("statistics_resource_adaptor: threads lose no count and see no more than is out") {
  hip_resource memory{first_device};
  limiting_resource_adaptor upstream{&memory, 7 * KiB};
  statistics_resource_adaptor counted{&upstream};
  four_threads(counted);
  CHECK(counted.get_bytes_counter().value == 0);
  CHECK(counted.get_allocations_counter().value == 0);
  CHECK(counted.get_bytes_counter().total == 1000 * counted.get_allocations_counter().total);
  CHECK(counted.get_allocations_counter().peak >= 3);
  CHECK(counted.get_allocations_counter().peak <= 7);
}

TEST_CASE("limiting_resource_adaptor: gives up to its limit, in multiples of the alignment") {
  hip_resource upstream{first_device};
  limiting_resource_adaptor limited{&upstream, 2 * KiB, 512};
  CHECK(limited.get_allocation_limit() == 2 * KiB);
  const stream used{first_device};
  void* const first = limited.allocate(used, 1);
  void* const second = limited.allocate_sync(1025);
  CHECK(limited.get_allocated_bytes() == 2 * KiB);
  CHECK_THROWS_AS(limited.allocate(used, 1), out_of_memory);
  limited.deallocate_sync(first, 1);
  CHECK(limited.get_allocated_bytes() == 1536);
  limited.deallocate(used, second, 1025);
  CHECK(limited.get_allocated_bytes() == 0);
  limited.deallocate(used, limited.allocate(used, 2 * KiB), 2 * KiB);
}

TEST_CASE("limiting_resource_adaptor: its refusal tells limit, allocated and asked") {
  hip_resource upstream{first_device};
  limiting_resource_adaptor limited{&upstream, 64 * KiB};
  void* const held = limited.allocate_sync(48 * KiB);
  const auto error =
      test::thrown_by<out_of_memory>([&] { return limited.allocate_sync(32 * KiB); });
  const std::string text = error.what();
  INFO(text);
  CHECK(error.resource() == exhausted::limit);
  CHECK(error.device() == first_device.ordinal());
  CHECK(error.bytes_requested() == 32 * KiB);
  CHECK(error.bytes_free() == 16 * KiB);
  CHECK(text.find("32.00 KiB requested, 16.00 KiB available") != std::string::npos);
  CHECK(text.find("allows 64.00 KiB at most, of which 48.00 KiB are in use") != std::string::npos);
  limited.deallocate_sync(held, 48 * KiB);
}

TEST_CASE("limiting_resource_adaptor: what the upstream refuses takes nothing of the limit") {
  hip_resource memory{first_device};
  limiting_resource_adaptor* outside = nullptr;
  std::size_t meanwhile = 0;
  test::scripted_resource upstream{&memory, [&](std::size_t nth, std::size_t) {
                                     meanwhile = outside->get_allocated_bytes();
                                     if (nth <= 2) throw std::bad_alloc{};
                                   }};
  limiting_resource_adaptor limited{&upstream, KiB};
  outside = &limited;
  const stream used{first_device};
  CHECK_THROWS_AS(limited.allocate(used, KiB), std::bad_alloc);
  CHECK(meanwhile == KiB);
  CHECK_THROWS_AS(limited.allocate_sync(KiB), std::bad_alloc);
  CHECK(limited.get_allocated_bytes() == 0);
  limited.deallocate(used, limited.allocate(used, KiB), KiB);
}

TEST_CASE(
    "limiting_resource_adaptor: more that comes back than is out is told and raises no limit") {
  hip_resource upstream{first_device};
  limiting_resource_adaptor limited{&upstream, KiB};
  void* const block = limited.allocate_sync(256);
  const test::error_recorder told;
  limited.deallocate_sync(block, 257);
  REQUIRE(told.count() == 1);
  CHECK(told.errors()[0].message.find("257 bytes are freed while 256") != std::string::npos);
  CHECK(limited.get_allocated_bytes() == 0);
  CHECK_THROWS_AS(limited.allocate_sync(KiB + 1), out_of_memory);
}

TEST_CASE("limiting_resource_adaptor: memory counts until the upstream has it back") {
  const limiting_resource_adaptor* seen = nullptr;
  std::vector<std::size_t> counted;
  hip_resource below{first_device};
  callback_resource upstream{
      [&](std::size_t bytes, stream_ref stream, void*) { return below.allocate(stream, bytes); },
      [&](void* pointer, std::size_t bytes, stream_ref stream, void*) {
        counted.push_back(seen->get_allocated_bytes());
        below.deallocate(stream, pointer, bytes);
      }};
  limiting_resource_adaptor limited{&upstream, MiB};
  seen = &limited;
  const stream used{first_device};
  limited.deallocate(used, limited.allocate(used, 64 * KiB), 64 * KiB);
  limited.deallocate_sync(limited.allocate_sync(64 * KiB), 64 * KiB);
  CHECK(counted == std::vector<std::size_t>(2, 64 * KiB));
  CHECK(limited.get_allocated_bytes() == 0);
}

TEST_CASE("statistics_resource_adaptor: memory no longer counts when the upstream gets it") {
  const statistics_resource_adaptor* seen = nullptr;
  std::vector<std::int64_t> counted;
  hip_resource below{first_device};
  callback_resource upstream{
      [&](std::size_t bytes, stream_ref stream, void*) { return below.allocate(stream, bytes); },
      [&](void* pointer, std::size_t bytes, stream_ref stream, void*) {
        counted.push_back(seen->get_bytes_counter().value);
        below.deallocate(stream, pointer, bytes);
      }};
  statistics_resource_adaptor watched{&upstream};
  seen = &watched;
  const stream used{first_device};
  watched.deallocate(used, watched.allocate(used, 64 * KiB), 64 * KiB);
  watched.deallocate_sync(watched.allocate_sync(64 * KiB), 64 * KiB);
  CHECK(counted == std::vector<std::int64_t>(2, 0));
}

TEST_CASE("limiting_resource_adaptor: threads together never get beyond the limit") {
  hip_resource memory{first_device};
  statistics_resource_adaptor upstream{&memory};
  limiting_resource_adaptor limited{&upstream, 5 * KiB};
  four_threads(limited);
  CHECK(limited.get_allocated_bytes() == 0);
  CHECK(upstream.get_allocations_counter().value == 0);
  CHECK(upstream.get_allocations_counter().peak >= 2);
  CHECK(upstream.get_allocations_counter().peak <= 5);
}

TEST_CASE(
    "limiting_resource_adaptor: no upstream and an alignment of no power of two are refused") {
  hip_resource upstream{first_device};
  CHECK_THROWS_AS(limiting_resource_adaptor(nullptr, KiB), std::invalid_argument);
  CHECK_THROWS_AS(limiting_resource_adaptor(&upstream, KiB, 0), std::invalid_argument);
  CHECK_THROWS_AS(limiting_resource_adaptor(&upstream, KiB, 384), std::invalid_argument);
}

}  // namespace hipvmm::mr

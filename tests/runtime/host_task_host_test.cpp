// SPDX-License-Identifier: MIT
#include <hipvmm/runtime/host_task.hpp>

#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

used_memory written(const device_memory& memory) { return {memory.get(), KiB, memory_use::write}; }
used_memory read(const device_memory& memory) { return {memory.get(), KiB, memory_use::read}; }

/// The reports so far, which are forgotten.
std::uint64_t take_reports() {
  const std::uint64_t count = hipvmm_host_order_reports();
  hipvmm_host_clear_order_reports();
  return count;
}

}  // namespace

TEST_CASE("host_task: runs after the work of its stream and before later work") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  const device_memory memory{KiB};
  const stream used;
  fill_async(used, memory.get(), 1, KiB);
  auto* const bytes = memory.get();
  host_task(used, [=] { std::for_each(bytes, bytes + KiB, [](unsigned char& each) { ++each; }); },
            {written(memory)});
  std::vector<unsigned char> seen(KiB);
  copy(used, seen.data(), memory.get(), KiB);
  CHECK(std::count(seen.begin(), seen.end(), 2) == static_cast<std::ptrdiff_t>(KiB));
}

TEST_CASE("host_task: without the checker any memory may be named") {
  if (hipvmm_host_checks_order() != 0) return;
  const stream used;
  std::atomic<bool> ran{false};
  host_task(used, [&] { ran = true; }, {{&ran, sizeof(ran), memory_use::write}});
  used.synchronize();
  CHECK(ran);
}

HIPVMM_TEST_CASE_IN("host_task: its writes race with unordered work of other streams",
                    {"HIPVMM_HOST_CHECK=1"}) {
  const device_memory memory{KiB};
  const stream first;
  const stream second;
  const auto writes_and = [&](const used_memory& other) {
    host_task(first, [] {}, {written(memory)});
    note_use(second, other);
    first.synchronize();
    second.synchronize();
    return take_reports();
  };
  CHECK(writes_and(read(memory)) == 1);
  CHECK(writes_and(written(memory)) == 1);
  host_task(first, [] {}, {read(memory)});
  host_task(second, [] {}, {read(memory)});
  CHECK(take_reports() == 0);
}

HIPVMM_TEST_CASE_IN("host_task: its writes race also when it runs before the other work",
                    {"HIPVMM_HOST_CHECK=1"}) {
  const device_memory memory{KiB};
  const stream first;
  const stream second;
  std::atomic<bool> ran{false};
  host_task(first, [&] { ran = true; }, {written(memory)});
  while (!ran) std::this_thread::yield();
  fill_async(second, memory.get(), 1, KiB);
  CHECK(take_reports() == 1);
  first.synchronize();
  second.synchronize();
}

HIPVMM_TEST_CASE_IN("host_task: its writes are silent in order", {"HIPVMM_HOST_CHECK=1"}) {
  const device_memory memory{KiB};
  const stream first;
  const stream second;
  host_task(first, [] {}, {written(memory)});
  event between;
  between.record(first);
  second.wait(between);
  host_task(second, [] {}, {written(memory)});
  second.synchronize();
  fill_async(first, memory.get(), 1, KiB);
  first.synchronize();
  CHECK(take_reports() == 0);
}

HIPVMM_TEST_CASE_IN("host_task: what is no memory of the device is refused, and nothing runs",
                    {"HIPVMM_HOST_CHECK=1"}) {
  const device_memory memory{KiB};
  const stream used;
  bool ran = false;
  const used_memory wrong{&ran, sizeof(ran), memory_use::write};
  CHECK_THROWS_AS(host_task(used, [&] { ran = true; }, {written(memory), wrong}),
                  std::invalid_argument);
  // Nothing of it was noted.
  const stream other;
  fill_async(other, memory.get(), 1, KiB);
  CHECK(take_reports() == 0);
  other.synchronize();
  used.synchronize();
  CHECK_FALSE(ran);
  CHECK_THROWS_AS(note_use(used, wrong), std::invalid_argument);
  const std::string text = text_thrown_by<std::invalid_argument>([&] {
    note_use(used, {&ran, 1, memory_use::read});
  });
  CHECK(text.find("note_use: 1 bytes at 0x") == 0);
  CHECK(text.find("may read: name memory of HIP") != std::string::npos);
}

}  // namespace hipvmm::test

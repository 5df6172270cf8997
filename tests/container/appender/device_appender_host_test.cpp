// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_appender.hpp>

#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/host_task.hpp>
#include <hipvmm/vmm/address_reservation.hpp>
#include "container/container_test.hpp"
#include "container/host_kernel.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

// Large, so that few fill the room, and no divisor of it.

constexpr std::size_t roomy_size = 1000;
constexpr std::size_t roomy_room = 8 * MiB / sizeof(element300) - roomy_size;

/// A vector of a thousand elements that backs 8 MiB, with room for more at its addresses.
struct roomy_appender {
  hipvmm::stream stream;
  growable_device_vector<element300> vector;
  device_appender<element300> appender{vector};
  const element300* const data = vector.data();

  roomy_appender() {
    vector.reserve(roomy_size + roomy_room);
    vector.append(series<element300>(0, roomy_size), stream);
  }
  /// A kernel that appends the elements of the series from `first` on, one by one.
  void launch_series(const device_appender_ref<element300>& ref, std::size_t first,
                     std::size_t count) {
    launch(stream, [=] {
      for (std::size_t i = first; i < first + count; ++i) ref.push(numbered<element300>(i));
    });
  }
  [[nodiscard]] std::vector<element300> contents() const { return vector.copy_to_host(stream); }
};

TEST_CASE("device_appender: commit makes what kernels wrote into elements") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  roomy_appender subject;
  subject.launch_series(subject.appender.prepare(5000, subject.stream), roomy_size, 5000);
  const append_result result = subject.appender.commit(subject.stream);
  CHECK(result.appended == 5000);
  CHECK(result.missed == 0);
  CHECK(subject.contents() == series<element300>(0, roomy_size + 5000));
}

TEST_CASE("device_appender: kernels that fill the room exactly miss nothing") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  roomy_appender subject;
  const std::size_t steps = subject.vector.statistics().growth_steps;
  subject.launch_series(subject.appender.prepare(roomy_room, subject.stream), roomy_size,
                        roomy_room);
  CHECK(subject.appender.commit(subject.stream).appended == roomy_room);
  CHECK(subject.contents() == series<element300>(0, roomy_size + roomy_room));
  CHECK(subject.vector.statistics().growth_steps == steps);
}

TEST_CASE("device_appender: after an overflow the whole run has room, and no element of it stays") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t count = 2 * roomy_room + 17;
  roomy_appender subject;
  subject.launch_series(subject.appender.prepare(1, subject.stream), roomy_size, count);
  append_result result = subject.appender.commit(subject.stream);
  CHECK(result.appended == 0);
  CHECK(result.missed == count);
  CHECK(subject.contents() == series<element300>(0, roomy_size));
  CHECK(subject.vector.capacity() >= roomy_size + count);

  const std::size_t steps = subject.vector.statistics().growth_steps;
  subject.launch_series(subject.appender.prepare(result.missed, subject.stream), roomy_size, count);
  result = subject.appender.commit(subject.stream);
  CHECK(result.appended == count);
  CHECK(result.missed == 0);
  CHECK(subject.contents() == series<element300>(0, roomy_size + count));
  CHECK(subject.vector.statistics().growth_steps == steps);
  if (subject.vector.is_address_stable()) CHECK(subject.vector.data() == subject.data);
}

TEST_CASE("device_appender: after an overflow what fitted may stay and the rest has room") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t count = 2 * roomy_room + 17;
  roomy_appender subject;
  std::vector<char> done(count);
  const auto launch_rest = [&](const device_appender_ref<element300>& ref) {
    launch(subject.stream, [&done, ref] {
      for (std::size_t i = 0; i < count; ++i)
        if (done[i] == 0) done[i] = ref.push(numbered<element300>(roomy_size + i)) ? 1 : 0;
    });
  };
  launch_rest(subject.appender.prepare(0, subject.stream));
  append_result result = subject.appender.commit(subject.stream, on_overflow::keep);
  CHECK(result.appended == roomy_room);
  CHECK(result.missed == count - roomy_room);
  CHECK(subject.contents() == series<element300>(0, roomy_size + roomy_room));
  CHECK(subject.vector.capacity() >= roomy_size + count);

  launch_rest(subject.appender.prepare(result.missed, subject.stream));
  result = subject.appender.commit(subject.stream, on_overflow::keep);
  CHECK(result.appended == count - roomy_room);
  CHECK(result.missed == 0);
  CHECK(subject.contents() == series<element300>(0, roomy_size + count));
  if (subject.vector.is_address_stable()) CHECK(subject.vector.data() == subject.data);
}

TEST_CASE("device_appender: a block that did not fit leaves no gap behind the elements") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  roomy_appender subject;
  const std::vector<element300> block = series<element300>(0, 1000);
  const auto ref = subject.appender.prepare(0, subject.stream);
  constexpr std::size_t fitting = roomy_room / 1000;
  static_assert(roomy_room % 1000 != 0);
  launch(subject.stream, [&] {
    for (std::size_t i = 0; i <= fitting; ++i) ref.push(block.data(), block.size());
  });
  const append_result result = subject.appender.commit(subject.stream, on_overflow::keep);
  CHECK(result.appended == fitting * 1000);
  CHECK(result.missed == 1000);
  const std::vector<element300> found = subject.contents();
  REQUIRE(found.size() == roomy_size + fitting * 1000);
  CHECK(std::equal(block.begin(), block.end(), found.end() - 1000));
  CHECK(subject.vector.capacity() >= found.size() + 1000);
}

TEST_CASE("device_appender: kernels of several streams append in one run") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  roomy_appender subject;
  constexpr std::size_t each = 1000;
  std::vector<hipvmm::stream> others(3);
  const auto ref = subject.appender.prepare(3 * each, subject.stream);
  event ready;
  ready.record(subject.stream);
  std::vector<event> finished(others.size());
  for (std::size_t index = 0; index < others.size(); ++index) {
    others[index].wait(ready);
    launch(others[index], [=] {
      for (std::size_t i = 0; i < each; ++i) ref.push(numbered<element300>(index));
    });
    finished[index].record(others[index]);
    subject.stream.wait(finished[index]);
  }
  CHECK(subject.appender.commit(subject.stream).appended == 3 * each);
  const std::vector<element300> found = subject.contents();
  for (std::size_t index = 0; index < others.size(); ++index)
    CHECK(std::count(found.begin() + roomy_size, found.end(), numbered<element300>(index)) == each);
}

TEST_CASE("device_appender: prepare waits for nothing, and commit for its stream" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  roomy_appender subject;
  const calls_of waits{waiting_functions};
  const call_counter reads{"hipMemcpyAsync"};
  held_streams held;
  const auto ref = subject.appender.prepare(roomy_room + 1, subject.stream);
  subject.launch_series(ref, roomy_size, 10);
  CHECK(waits.count() == 0);
  std::atomic<bool> committed = false;
  std::thread committing{[&] {
    CHECK(subject.appender.commit(subject.stream).appended == 10);
    committed = true;
  }};
  while (reads.count() == 0) std::this_thread::yield();
  CHECK_FALSE(committed);
  held.release();
  committing.join();
  CHECK(subject.contents() == series<element300>(0, roomy_size + 10));
}

TEST_CASE("device_appender: runs in a row make few chunks, as appends in a row do") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t step = 10'000;
  constexpr std::size_t runs = 100;
  roomy_appender subject;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto ref = subject.appender.prepare(step, subject.stream);
    launch(subject.stream, [=] { static_cast<void>(ref.slots(step)); });
    REQUIRE(subject.appender.commit(subject.stream).appended == step);
  }
  CHECK(subject.vector.size() == roomy_size + runs * step);
  CHECK(subject.vector.statistics().chunks < runs / 2);
}

TEST_CASE("device_appender: what fitted moves along when growth must leave the reservation" *
          needs_virtual_memory) {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  const growth_options options{.max_bytes = 8 * MiB};
  const stream stream;
  growable_device_vector<element300> vector{first_device, options};
  vector.append(series<element300>(0, roomy_size), stream);
  const address_reservation blocker{granule(), 0, advance(vector.data(), 8 * MiB)};
  device_appender<element300> appender{vector};
  constexpr std::size_t count = roomy_room + 1000;
  const auto ref = appender.prepare(roomy_room, stream);
  launch(stream, [=] {
    for (std::size_t i = 0; i < count; ++i) ref.push(numbered<element300>(roomy_size + i));
  });
  const append_result result = appender.commit(stream, on_overflow::keep);
  CHECK(result.missed == 1000);
  CHECK(vector.statistics().base_moves == 1);
  CHECK(vector.copy_to_host(stream) == series<element300>(0, roomy_size + roomy_room));
  CHECK(appender.prepare(0, stream).base() == vector.end());
}

HIPVMM_TEST_CASE_IN("device_appender: the order checker knows that the kernels of a run write",
                    {"HIPVMM_HOST_CHECK=1"}) {
  const stream own;
  const stream other;
  growable_device_vector<int> vector;
  vector.resize(2000, 7, own);
  device_appender<int> appender{vector};
  // Other work reads elements that were removed, whose slots the run takes.
  const auto reports_after = [&](std::size_t expected, bool in_order) {
    vector.resize(2000, 7, own);
    own.synchronize();
    note_use(other, {vector.data() + 1000, 1000 * sizeof(int), memory_use::read});
    vector.resize(1000, 7, own);
    event between;
    if (in_order) {
      between.record(other);
      own.wait(between);
    }
    static_cast<void>(appender.prepare(expected, own));
    static_cast<void>(appender.commit(own));
    other.synchronize();
    const std::uint64_t count = hipvmm_host_order_reports();
    hipvmm_host_clear_order_reports();
    return count;
  };
  CHECK(reports_after(1, false) == 1);
  CHECK(reports_after(1000, false) == 1);
  CHECK(reports_after(1000, true) == 0);
  CHECK(reports_after(0, false) == 0);
}

}  // namespace
}  // namespace hipvmm::test

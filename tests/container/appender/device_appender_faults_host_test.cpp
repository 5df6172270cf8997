// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_appender.hpp>

#include "container/container_test.hpp"
#include "container/host_kernel.hpp"
#include "support/device_use.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

// Large, so that few fill the room, and no divisor of it.

constexpr std::size_t tight_size = 1000;
constexpr std::size_t tight_room = 2 * MiB / sizeof(element300) - tight_size;

/// A vector of a thousand elements in 2 MiB.
struct tight_appender {
  hipvmm::stream stream;
  growable_device_vector<element300> vector;
  device_appender<element300> appender{vector};
  const element300* const data = vector.data();

  tight_appender() {
    vector.append(series<element300>(0, tight_size), stream);
    stream.synchronize();
  }
  void launch_series(const device_appender_ref<element300>& ref, std::size_t first,
                     std::size_t count) {
    launch(stream, [=] {
      for (std::size_t i = first; i < first + count; ++i) ref.push(numbered<element300>(i));
    });
  }
  void check_contents(std::size_t size) const {
    CHECK(vector.size() == size);
    if (vector.is_address_stable()) CHECK(vector.data() == data);
    CHECK(vector.copy_to_host(stream) == series<element300>(0, size));
  }
};

/// A subject whose run has appended `count` elements and waits for commit.
template <std::size_t Count>
struct tight_appender_in_run : tight_appender {
  tight_appender_in_run() { launch_series(appender.prepare(0, stream), tight_size, Count); }
};

TEST_CASE("device_appender: a construction that fails leaves nothing") {
  // If a call that frees memory fails, memory is lost to the process; other tests fill the
  // first device to its last granule.
  const scoped_device current{device_ref{2}};
  growable_device_vector<element300> vector;
  fault_sweep{"construction"}.run([&] { const device_appender<element300> made{vector}; });
}

TEST_CASE("device_appender: prepare that fails changes nothing and begins no run") {
  fault_sweep{"prepare", after_failure::capacity}.run<tight_appender>(
      [](auto& subject) {
        static_cast<void>(subject.appender.prepare(tight_room + 1, subject.stream));
      },
      [](auto& subject) {
        subject.check_contents(tight_size);
        CHECK_NOTHROW(static_cast<void>(subject.appender.prepare(1, subject.stream)));
      },
      [](auto& subject) { subject.check_contents(tight_size); });
}

TEST_CASE("device_appender: commit that fails changes nothing and may be tried again") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t count = 5000;
  fault_sweep{"commit"}.run(
      [] { return std::make_unique<tight_appender_in_run<count>>(); },
      [](auto& subject) { static_cast<void>(subject.appender.commit(subject.stream)); },
      [&](auto& subject) {
        subject.check_contents(tight_size);
        CHECK(subject.appender.commit(subject.stream).appended == count);
        subject.check_contents(tight_size + count);
      },
      [](auto& subject) { subject.check_contents(tight_size + count); });
}

TEST_CASE("device_appender: commit with growth that fails changes nothing and may be tried again") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t count = tight_room + 5000;
  const auto sweep = [](on_overflow overflow, std::size_t appended) {
    fault_sweep{"commit after an overflow", after_failure::capacity}.run(
        [] { return std::make_unique<tight_appender_in_run<count>>(); },
        [&](auto& subject) {
          static_cast<void>(subject.appender.commit(subject.stream, overflow));
        },
        [&](auto& subject) {
          subject.check_contents(tight_size);
          const append_result again = subject.appender.commit(subject.stream, overflow);
          CHECK(again.appended == appended);
          CHECK(again.missed == count - appended);
          subject.check_contents(tight_size + appended);
        },
        [&](auto& subject) {
          subject.check_contents(tight_size + appended);
          CHECK(subject.vector.capacity() >= tight_size + count);
        });
  };
  sweep(on_overflow::discard, 0);
  sweep(on_overflow::keep, tight_room);
}

TEST_CASE("device_appender: commit on a full device says so and loses nothing") {
  HIPVMM_SKIP_UNDER(host_may_not_touch);
  constexpr std::size_t count = tight_room + 5000;
  tight_appender_in_run<count> subject;
  auto other = std::make_unique<growable_device_vector<element300>>();
  other->reserve(align_down(free_memory_at_rest(first_device), 2 * MiB) / sizeof(element300));
  CHECK_THROWS_AS(static_cast<void>(subject.appender.commit(subject.stream, on_overflow::keep)),
                  out_of_memory);
  subject.check_contents(tight_size);
  other.reset();
  CHECK(subject.appender.commit(subject.stream, on_overflow::keep).appended == tight_room);
  subject.check_contents(tight_size + tight_room);
}

}  // namespace
}  // namespace hipvmm::test

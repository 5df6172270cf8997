// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_appender.hpp>

#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

static_assert(!std::is_copy_constructible_v<device_appender<int>>);
static_assert(!std::is_move_constructible_v<device_appender<int>>);

struct appender_subject {
  hipvmm::stream stream;
  growable_device_vector<element12> vector;
  device_appender<element12> appender{vector};

  explicit appender_subject(std::size_t size = 1000) {
    vector.append(series<element12>(0, size), stream);
    stream.synchronize();
  }
  void check_unchanged(std::size_t size = 1000) const {
    CHECK(vector.size() == size);
    CHECK(vector.copy_to_host(stream) == series<element12>(0, size));
  }
};

TEST_CASE("device_appender: prepare makes room behind the last element and leaves the size") {
  appender_subject subject;
  const auto ref = subject.appender.prepare(1'000'000, subject.stream);
  CHECK(ref.capacity() >= 1'000'000);
  CHECK(ref.capacity() == subject.vector.capacity() - subject.vector.size());
  CHECK(ref.base() == subject.vector.end());
  subject.check_unchanged();
}

TEST_CASE("device_appender: prepare of nothing offers the room there is") {
  appender_subject subject;
  const std::size_t room = subject.vector.capacity() - subject.vector.size();
  CHECK(subject.appender.prepare(0, subject.stream).capacity() == room);
}

TEST_CASE("device_appender: a vector that backs nothing has room for nothing") {
  const hipvmm::stream stream;
  growable_device_vector<element12> vector;
  device_appender<element12> appender{vector};
  CHECK(appender.prepare(0, stream).capacity() == 0);
  CHECK(appender.commit(stream).missed == 0);
  CHECK(vector.capacity() == 0);
}

TEST_CASE_FIXTURE(appender_subject, "device_appender: a run that appends nothing changes nothing") {
  for (const on_overflow overflow : {on_overflow::discard, on_overflow::keep}) {
    static_cast<void>(appender.prepare(10, stream));
    const append_result result = appender.commit(stream, overflow);
    CHECK(result.appended == 0);
    CHECK(result.missed == 0);
    check_unchanged();
  }
}

TEST_CASE("device_appender: prepare refuses to begin a run within a run") {
  appender_subject subject;
  static_cast<void>(subject.appender.prepare(10, subject.stream));
  CHECK_THROWS_WITH_AS(static_cast<void>(subject.appender.prepare(10, subject.stream)),
                       doctest::Contains("call commit or discard first"), std::logic_error);
  CHECK(subject.appender.commit(subject.stream).missed == 0);
}

TEST_CASE_FIXTURE(appender_subject, "device_appender: commit without a run throws logic_error") {
  CHECK_THROWS_WITH_AS(static_cast<void>(appender.commit(stream)),
                       doctest::Contains("call prepare first"), std::logic_error);
  static_cast<void>(appender.prepare(10, stream));
  appender.discard();
  CHECK_THROWS_AS(static_cast<void>(appender.commit(stream)), std::logic_error);
  check_unchanged();
}

TEST_CASE_FIXTURE(appender_subject, "device_appender: a run may follow one that was discarded") {
  appender.discard();
  static_cast<void>(appender.prepare(10, stream));
  appender.discard();
  static_cast<void>(appender.prepare(10, stream));
  CHECK(appender.commit(stream).missed == 0);
  check_unchanged();
}

TEST_CASE_FIXTURE(appender_subject,
                  "device_appender: commit refuses a vector that was changed during the run") {
  static_cast<void>(appender.prepare(10'000'000, stream));
  SUBCASE("by an element more") { vector.push_back(numbered<element12>(1), stream); }
  SUBCASE("by an element less") { vector.pop_back(); }
  SUBCASE("by giving memory back") { vector.shrink_to_fit(stream, tail_chunk::replace); }
  SUBCASE("by moving its elements away") {
    const growable_device_vector<element12> taken = std::move(vector);
    CHECK(taken.size() == 1000);
  }
  const std::size_t size = vector.size();
  CHECK_THROWS_WITH_AS(static_cast<void>(appender.commit(stream)),
                       doctest::Contains("was changed during the run; it had 1000 elements"),
                       std::logic_error);
  CHECK(vector.size() == size);
  appender.discard();
  static_cast<void>(appender.prepare(10, stream));
  CHECK(appender.commit(stream).missed == 0);
}

TEST_CASE("device_appender: more elements than addresses throw length_error and begin no run") {
  appender_subject subject;
  CHECK_THROWS_AS(static_cast<void>(subject.appender.prepare(~std::size_t{0}, subject.stream)),
                  std::length_error);
  CHECK_THROWS_AS(static_cast<void>(subject.appender.prepare(~std::size_t{0} / 16, subject.stream)),
                  std::length_error);
  CHECK_THROWS_AS(static_cast<void>(subject.appender.commit(subject.stream)), std::logic_error);
  subject.check_unchanged();
}

TEST_CASE("device_appender: takes its counters from the resource it is given") {
  const stream stream;
  growable_device_vector<element12> vector;
  mr::hip_resource upstream{first_device};
  mr::statistics_resource_adaptor counted{&upstream};
  {
    device_appender<element12> appender{vector, &counted};
    CHECK(counted.get_bytes_counter().value == sizeof(append_counters));
    static_cast<void>(appender.prepare(10, stream));
    CHECK(appender.commit(stream).appended == 0);
    CHECK(counted.get_allocations_counter().total == 1);
  }
  CHECK(counted.get_bytes_counter().value == 0);
  CHECK_THROWS_AS((device_appender<element12>{vector, nullptr}), std::invalid_argument);
}

TEST_CASE("device_appender: an appender alone backs no chunk" * needs_virtual_memory) {
  chunk_cache::shared().trim();
  const std::size_t chunks = chunk_cache::shared().statistics().misses;
  growable_device_vector<element12> vector;
  const device_appender<element12> appender{vector};
  CHECK(chunk_cache::shared().statistics().misses == chunks);
}

TEST_CASE("device_appender: works on a vector of another device") {
  HIPVMM_REQUIRE_TWO_DEVICES();
  const device_ref second{1};
  const hipvmm::stream stream{second};
  growable_device_vector<element12> vector{second};
  device_appender<element12> appender{vector};
  CHECK(appender.prepare(10, stream).capacity() >= 10);
  CHECK(appender.commit(stream).missed == 0);
  CHECK(device_ref::current() == first_device);
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include "container/container_test.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

// Not the current device.
struct vector_on_resource {
  mr::hip_resource upstream{second_device};
  mr::statistics_resource_adaptor counted{&upstream};
  hipvmm::stream stream{second_device};
  growable_device_vector<element12> vector{second_device, options()};

  vector_on_resource() {
    vector.append(series<element12>(0, 1000), stream);
    stream.synchronize();
  }
  growth_options options() { return growth_options{.resource = &counted}; }
  void check(std::size_t size) const {
    REQUIRE(vector.size() == size);
    CHECK(vector.element(0, stream) == numbered<element12>(0));
    CHECK(vector.element(999, stream) == numbered<element12>(999));
  }
};

TEST_CASE("growable_device_vector on a resource: growth that fails changes nothing") {
  fault_sweep{"growth on a resource", after_failure::capacity}.run<vector_on_resource>(
      [](auto& subject) { subject.vector.resize(5000, subject.stream); },
      [](auto& subject) { subject.check(1000); }, [](auto& subject) { subject.check(5000); });
}

TEST_CASE("growable_device_vector on a resource: a shrink that fails changes nothing") {
  fault_sweep{"shrink on a resource", after_failure::capacity}.run(
      [] {
        auto subject = std::make_unique<vector_on_resource>();
        subject->vector.reserve(9000);
        return subject;
      },
      [](auto& subject) { subject.vector.shrink_to_fit(subject.stream, tail_chunk::replace); },
      [](auto& subject) { subject.check(1000); }, [](auto& subject) { subject.check(1000); });
}

TEST_CASE("growable_device_vector on a resource: growth waits for work in other streams") {
  vector_on_resource subject;
  const pinned_memory result{12'000};
  const stream reader{second_device};
  const calls_of waits{waiting_functions};
  held_streams held;
  copy_async(reader, result.get(), subject.vector.data(), 12'000);
  std::thread growing{[&] { subject.vector.reserve(5000); }};
  while (waits.count() == 0) std::this_thread::yield();
  CHECK_FALSE(reader.is_done());
  held.release();
  growing.join();
  CHECK(reader.is_done());
  subject.check(1000);
}

TEST_CASE("growable_device_vector on a resource: its end waits for work under way") {
  auto subject = std::make_unique<vector_on_resource>();
  const pinned_memory result{12'000};
  const stream reader{second_device};
  const calls_of waits{waiting_functions};
  held_streams held;
  copy_async(reader, result.get(), subject->vector.data(), 12'000);
  std::thread ending{[&] { subject.reset(); }};
  while (waits.count() == 0) std::this_thread::yield();
  held.release();
  ending.join();
  reader.synchronize();
  const byte_vector first = pattern(12, 1);
  CHECK(std::equal(first.begin(), first.end(), result.get()));
}

}  // namespace
}  // namespace hipvmm::test

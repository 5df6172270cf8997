// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_device_vector.hpp>

#include <doctest/doctest.h>

#include <memory>

#include "support/devices.hpp"
#include "support/element.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/region/fallback.hpp"

namespace hipvmm::test::growable_device_vector_faults_host_test {
namespace {

// A size that no fill writes in one call.
using value = element<12>;
using device_vector = growable_device_vector<value>;
// Not the current one, so that switching devices is swept as well; and where a call that gives
// memory back fails, memory is lost to the process, and other tests fill the first device to its
// last granule.
constexpr device_ref owner{1};
constexpr device_ref peer = first_device;
constexpr std::size_t old_size = 1000;

/// A vector of a thousand elements that must move to hold more than 8 MiB.
struct subject {
  hipvmm::stream stream{owner};
  growable_device_vector<value> vector{owner, options()};
  address_reservation blocker = block_addresses_at(advance(vector.data(), 8 * MiB));
  const value* const data = vector.data();

  subject() {
    vector.grant(peer, peer_right());
    vector.append(series<value>(0, old_size), stream);
    stream.synchronize();  // other streams read it, too
  }
  static growth_options options() {
    growth_options result;
    result.max_bytes = 8 * MiB;
    return result;
  }
  [[nodiscard]] std::vector<value> contents() const { return vector.copy_to_host(stream); }
  void check_unchanged() const {
    CHECK(vector.size() == old_size);
    // Where growth copies, capacity that was added has another address.
    if (vector.is_address_stable()) {
      CHECK(vector.data() == data);
      CHECK(vector.statistics().base_moves == 0);
    }
    CHECK(vector.access(peer) == peer_right());
    if (!on_fallback()) CHECK(get_access(vector.data(), peer) == peer_right());
    if (!on_fallback())
      CHECK(get_access(vector.data() + vector.capacity() - 1, peer) == peer_right());
    CHECK(contents() == series<value>(0, old_size));
  }
};

/// The first elements of the series, then `rest`.
std::vector<value> followed_by(const std::vector<value>& rest) {
  std::vector<value> result = series<value>(0, old_size);
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

/// Sweeps one member function and compares what it leaves with `expected`.
template <typename Operation>
void sweep(const char* name, const std::vector<value>& expected, Operation operation) {
  fault_sweep{name, after_failure::capacity}.run(
      [] { return std::make_unique<subject>(); },
      [&](std::unique_ptr<subject>& subject) { operation(subject->vector, subject->stream); },
      [](const std::unique_ptr<subject>& subject) { subject->check_unchanged(); },
      [&](const std::unique_ptr<subject>& subject) {
        CHECK(subject->vector.size() == expected.size());
        CHECK(subject->contents() == expected);
      });
}

constexpr std::size_t more = 200'000;

TEST_CASE("growable_device_vector: a construction that fails leaves nothing") {
  fault_sweep{"construction"}.run([] { const device_vector made{owner}; });
}

TEST_CASE("growable_device_vector: reserve that fails changes nothing") {
  sweep("reserve", series<value>(0, old_size),
        [](device_vector& v, stream_ref) { v.reserve(more); });
}

TEST_CASE("growable_device_vector: growth past the maximum that fails changes nothing") {
  sweep("reserve past max_size", series<value>(0, old_size),
        [](device_vector& v, stream_ref) { v.reserve(v.max_size() + 1); });
}

TEST_CASE("growable_device_vector: resize that fails changes nothing") {
  sweep("resize", followed_by(std::vector<value>(more)),
        [](device_vector& v, stream_ref stream) { v.resize(old_size + more, stream); });
  sweep("resize with a value", followed_by(std::vector<value>(more, numbered<value>(5))),
        [](device_vector& v, stream_ref stream) {
          v.resize(old_size + more, numbered<value>(5), stream);
        });
}

TEST_CASE("growable_device_vector: resize_uninitialized that fails changes nothing") {
  fault_sweep{"resize_uninitialized", after_failure::capacity}.run(
      [] { return std::make_unique<subject>(); },
      [](std::unique_ptr<subject>& subject) { subject->vector.resize_uninitialized(more); },
      [](const std::unique_ptr<subject>& subject) { subject->check_unchanged(); },
      [](const std::unique_ptr<subject>& subject) { CHECK(subject->vector.size() == more); });
}

TEST_CASE("growable_device_vector: append that fails changes nothing") {
  const std::vector<value> added = series<value>(old_size, more);
  sweep("append", followed_by(added),
        [&](device_vector& v, stream_ref stream) { v.append(added, stream); });
}

TEST_CASE("growable_device_vector: append past the maximum that fails keeps every element") {
  const std::vector<value> added(900'000, numbered<value>(2));
  const std::vector<value> old = series<value>(0, old_size);
  const std::vector<value> expected = followed_by(added);
  fault_sweep{"append past max_size", after_failure::capacity}.run(
      [] { return std::make_unique<subject>(); },
      [&](std::unique_ptr<subject>& subject) { subject->vector.append(added, subject->stream); },
      [&](const std::unique_ptr<subject>& subject) { CHECK(subject->contents() == old); },
      [&](const std::unique_ptr<subject>& subject) { CHECK(subject->contents() == expected); });
}

TEST_CASE("growable_device_vector: append of its own elements that fails changes nothing") {
  sweep("append of its own", followed_by(series<value>(0, old_size)),
        [](device_vector& v, stream_ref stream) { v.append_from_device(v.span(), stream); });
}

TEST_CASE("growable_device_vector: push_back that fails changes nothing") {
  sweep("push_back", followed_by({numbered<value>(77)}),
        [](device_vector& v, stream_ref stream) { v.push_back(numbered<value>(77), stream); });
}

TEST_CASE("growable_device_vector: assign that fails changes nothing") {
  const std::vector<value> others = series<value>(5000, more);
  sweep("assign", others, [&](device_vector& v, stream_ref stream) { v.assign(others, stream); });
}

TEST_CASE("growable_device_vector: assign of copies that fails keeps the size and the address") {
  const std::vector<value> expected(more, numbered<value>(6));
  fault_sweep{"assign of copies", after_failure::capacity}.run(
      [] { return std::make_unique<subject>(); },
      [](std::unique_ptr<subject>& subject) {
        subject->vector.assign(more, numbered<value>(6), subject->stream);
      },
      [](const std::unique_ptr<subject>& subject) {
        CHECK(subject->vector.size() == old_size);
        if (!on_fallback()) CHECK(subject->vector.data() == subject->data);
      },
      [&](const std::unique_ptr<subject>& subject) { CHECK(subject->contents() == expected); });
}

TEST_CASE("growable_device_vector: set_element that fails changes nothing") {
  std::vector<value> expected = series<value>(0, old_size);
  expected[3] = numbered<value>(88);
  sweep("set_element", expected,
        [](device_vector& v, stream_ref stream) { v.set_element(3, numbered<value>(88), stream); });
}

TEST_CASE("growable_device_vector: shrink_to_fit that fails keeps every element") {
  for (const auto tail : {tail_chunk::keep, tail_chunk::replace}) {
    sweep("shrink_to_fit", series<value>(0, old_size), [&](device_vector& v, stream_ref stream) {
      v.reserve(500'000);
      v.shrink_to_fit(stream, tail);
    });
  }
}

TEST_CASE("growable_device_vector: grant and revoke that fail change no right") {
  const auto sweep_right = [](const char* name, access_right right) {
    fault_sweep{name}.run(
        [] { return std::make_unique<subject>(); },
        [&](std::unique_ptr<subject>& subject) { subject->vector.grant(peer, right); },
        [](const std::unique_ptr<subject>& subject) { subject->check_unchanged(); },
        [&](const std::unique_ptr<subject>& subject) {
          CHECK(subject->vector.access(peer) == right);
          if (!on_fallback()) CHECK(get_access(subject->vector.data(), peer) == right);
        });
  };
  sweep_right("grant", access_right::read_write);
  // On hipMalloc it makes no HIP call.
  if (!on_fallback()) sweep_right("revoke", access_right::none);
}

TEST_CASE("growable_device_vector: clone that fails leaves nothing") {
  fault_sweep{"clone"}.run(
      [] { return std::make_unique<subject>(); },
      [](std::unique_ptr<subject>& subject) {
        // A stream of its own: where the fault is in the clone's destructor, which then cannot
        // wait, the copy loses its target, and that is this stream's error.
        const hipvmm::stream stream{owner};
        const unordered_on_purpose memory_may_go_before_the_copy;
        const device_vector copied = subject->vector.clone(stream);
        CHECK(copied.size() == old_size);
      },
      [](const std::unique_ptr<subject>& subject) { subject->check_unchanged(); },
      [](const std::unique_ptr<subject>& subject) { subject->check_unchanged(); });
}

TEST_CASE("growable_device_vector: reading that fails changes nothing") {
  sweep("copy_to_host", series<value>(0, old_size), [](device_vector& v, stream_ref stream) {
    static_cast<void>(v.copy_to_host(stream));
    static_cast<void>(v.element(0, stream));
  });
}

}  // namespace
}  // namespace hipvmm::test::growable_device_vector_faults_host_test

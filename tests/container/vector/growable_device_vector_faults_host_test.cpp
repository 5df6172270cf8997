// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"
#include "support/host/fault_sweep.hpp"

namespace hipvmm::test {
namespace {

// A size that no fill writes in one call.
// Not the current one, so that switching devices is swept as well; and if a call that gives
// memory back fails, memory is lost to the process, and other tests fill the first device to its
// last granule.
constexpr device_ref filling_device{1};
constexpr device_ref reading_device = first_device;
constexpr std::size_t size_before = 1000;

/// A vector of a thousand elements that must move to hold more than 8 MiB.
struct moving_vector {
  hipvmm::stream stream{filling_device};
  growable_device_vector<element12> vector{filling_device, options()};
  address_reservation blocker = block_addresses_at(advance(vector.data(), 8 * MiB));
  const element12* const data = vector.data();

  moving_vector() {
    vector.grant(reading_device, peer_right());
    vector.append(series<element12>(0, size_before), stream);
    stream.synchronize();  // other streams read it, too
  }
  static growth_options options() { return growth_options{.max_bytes = 8 * MiB}; }
  [[nodiscard]] std::vector<element12> contents() const { return vector.copy_to_host(stream); }
  void check_unchanged() const {
    CHECK(vector.size() == size_before);
    // If growth copies, capacity that was added has another address.
    if (vector.is_address_stable()) {
      CHECK(vector.data() == data);
      CHECK(vector.statistics().base_moves == 0);
    }
    CHECK(vector.access(reading_device) == peer_right());
    if (!on_fallback()) CHECK(get_access(vector.data(), reading_device) == peer_right());
    if (!on_fallback())
      CHECK(get_access(vector.data() + vector.capacity() - 1, reading_device) == peer_right());
    CHECK(contents() == series<element12>(0, size_before));
  }
};

/// The first elements of the series, then `rest`.
std::vector<element12> followed_by(const std::vector<element12>& rest) {
  std::vector<element12> result = series<element12>(0, size_before);
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

/// Sweeps one member function and compares the elements left with `expected`.
template <typename Operation>
void sweep_member(const char* name, const std::vector<element12>& expected, Operation operation) {
  fault_sweep{name, after_failure::capacity}.run<moving_vector>(
      [&](auto& subject) { operation(subject.vector, subject.stream); },
      [](auto& subject) { subject.check_unchanged(); },
      [&](auto& subject) {
        CHECK(subject.vector.size() == expected.size());
        CHECK(subject.contents() == expected);
      });
}

constexpr std::size_t more = 200'000;

TEST_CASE("growable_device_vector: a construction that fails leaves nothing") {
  fault_sweep{"construction"}.run([] { const vector_of_12 made{filling_device}; });
}

TEST_CASE("growable_device_vector: a member that fails changes nothing") {
  struct member {
    const char* name;
    std::vector<element12> expected;
    std::function<void(vector_of_12&, stream_ref)> call;
  };
  const std::vector<element12> before = series<element12>(0, size_before);
  const std::vector<element12> added = series<element12>(size_before, more);
  std::vector<element12> with_another = before;
  with_another[3] = numbered<element12>(88);
  const member members[] = {
      {"reserve", before, [](auto& v, stream_ref) { v.reserve(more); }},
      {"reserve past max_size", before, [](auto& v, stream_ref) { v.reserve(v.max_size() + 1); }},
      {"append", followed_by(added), [&](auto& v, stream_ref in) { v.append(added, in); }},
      {"append of its own", followed_by(before),
       [](auto& v, stream_ref in) { v.append_from_device(v.span(), in); }},
      {"push_back", followed_by({numbered<element12>(77)}),
       [](auto& v, stream_ref in) { v.push_back(numbered<element12>(77), in); }},
      {"assign", added, [&](auto& v, stream_ref in) { v.assign(added, in); }},
      {"set_element_async", with_another,
       [](auto& v, stream_ref in) { v.set_element_async(3, numbered<element12>(88), in); }},
      {"copy_to_host and element", before, [](auto& v, stream_ref in) {
         static_cast<void>(v.copy_to_host(in));
         static_cast<void>(v.element(0, in));
       }}};
  for (const member& each : members) sweep_member(each.name, each.expected, each.call);
}

TEST_CASE("growable_device_vector: resize that fails changes nothing") {
  sweep_member("resize", followed_by(std::vector<element12>(more)),
               [](vector_of_12& v, stream_ref stream) { v.resize(size_before + more, stream); });
  sweep_member("resize with a value",
               followed_by(std::vector<element12>(more, numbered<element12>(5))),
               [](vector_of_12& v, stream_ref stream) {
                 v.resize(size_before + more, numbered<element12>(5), stream);
               });
}

TEST_CASE("growable_device_vector: resize_uninitialized that fails changes nothing") {
  fault_sweep{"resize_uninitialized", after_failure::capacity}.run<moving_vector>(
      [](auto& subject) { subject.vector.resize_uninitialized(more); },
      [](auto& subject) { subject.check_unchanged(); },
      [](auto& subject) { CHECK(subject.vector.size() == more); });
}

/// A vector of 8 MiB in four chunks, which fill its addresses.
struct full_queue {
  static constexpr std::size_t marked = 3 * MiB / 2;
  hipvmm::stream stream{filling_device};
  growable_device_vector<element<4>> vector{filling_device, options()};
  const element<4>* data = nullptr;

  full_queue() {
    vector.grant(reading_device, peer_right());
    for (std::size_t bytes = 2 * MiB; bytes <= 8 * MiB; bytes += 2 * MiB)
      vector.resize(bytes / 4, numbered<element<4>>(bytes), stream);
    vector.set_element(marked, numbered<element<4>>(1), stream);
    data = vector.data();
    drain_retired_memory();
  }
  static growth_options options() { return growth_options{.max_bytes = 8 * MiB}; }
};

TEST_CASE("growable_device_vector: erase_front that fails erases nothing") {
  fault_sweep{"erase_front"}.run<full_queue>(
      [](auto& subject) { subject.vector.erase_front(5 * MiB / 4, subject.stream); },
      [](auto& subject) {
        CHECK(subject.vector.data() == subject.data);
        CHECK(subject.vector.size() == 2 * MiB);
        CHECK(subject.vector.element(0, subject.stream) == numbered<element<4>>(2 * MiB));
      },
      [](auto& subject) {
        CHECK(subject.vector.data() == subject.data + 5 * MiB / 4);
        CHECK(subject.vector.size() == 3 * MiB / 4);
      });
}

TEST_CASE("growable_device_vector: growth into erased addresses that fails keeps every element") {
  const auto marked = [](auto& subject) {
    const std::size_t at = full_queue::marked - 5 * MiB / 4;
    CHECK(subject.vector.element(at, subject.stream) == numbered<element<4>>(1));
    CHECK(subject.vector.element(0, subject.stream) == numbered<element<4>>(6 * MiB));
    CHECK(subject.vector.access(reading_device) == peer_right());
    if (!on_fallback()) CHECK(get_access(subject.vector.data(), reading_device) == peer_right());
  };
  fault_sweep{"growth of a queue", after_failure::capacity}.run(
      [] {
        auto subject = std::make_unique<full_queue>();
        subject->vector.erase_front(5 * MiB / 4, subject->stream);
        return subject;
      },
      [](auto& subject) { subject.vector.resize(MiB, subject.stream); },
      [&](auto& subject) {
        CHECK(subject.vector.size() == 3 * MiB / 4);
        marked(subject);
      },
      [&](auto& subject) {
        CHECK(subject.vector.size() == MiB);
        marked(subject);
      });
}

TEST_CASE("growable_device_vector: append past the maximum that fails keeps every element") {
  // So many that the next ones do not fit. Those between are not written.
  const std::size_t full = 8 * MiB / sizeof(element12);
  const std::vector<element12> added(more / 100, numbered<element12>(2));
  const auto has_old = [](const moving_vector& subject) {
    std::vector<element12> first(size_before);
    subject.vector.copy_to_host(first.data(), size_before, subject.stream);
    return first == series<element12>(0, size_before);
  };
  fault_sweep{"append past max_size", after_failure::capacity}.run(
      [&] {
        auto subject = std::make_unique<moving_vector>();
        subject->vector.resize_uninitialized(full);
        return subject;
      },
      [&](auto& subject) { subject.vector.append(added, subject.stream); },
      [&](auto& subject) {
        CHECK(subject.vector.size() == full);
        CHECK(has_old(subject));
      },
      [&](auto& subject) {
        REQUIRE(subject.vector.size() == full + added.size());
        CHECK(has_old(subject));
        std::vector<element12> last(added.size());
        copy(subject.stream, last.data(), subject.vector.data() + full,
             last.size() * sizeof(element12));
        CHECK(last == added);
      });
}

TEST_CASE("growable_device_vector: assign of copies that fails keeps the size and the address") {
  const std::vector<element12> expected(more, numbered<element12>(6));
  fault_sweep{"assign of copies", after_failure::capacity}.run<moving_vector>(
      [](auto& subject) { subject.vector.assign(more, numbered<element12>(6), subject.stream); },
      [](auto& subject) {
        CHECK(subject.vector.size() == size_before);
        if (!on_fallback()) CHECK(subject.vector.data() == subject.data);
      },
      [&](auto& subject) { CHECK(subject.contents() == expected); });
}

/// Sweeps a member that moves elements from element 400 on: those before stay, and the size.
template <typename Operation>
void sweep_moving_member(const char* name, const std::vector<element12>& expected,
                         Operation operation) {
  fault_sweep{name, after_failure::capacity}.run<moving_vector>(
      [&](auto& subject) { operation(subject.vector, subject.stream); },
      [](auto& subject) {
        REQUIRE(subject.vector.size() == size_before);
        std::vector<element12> kept(400);
        subject.vector.copy_to_host(kept.data(), kept.size(), subject.stream);
        CHECK(kept == series<element12>(0, 400));
      },
      [&](auto& subject) { CHECK(subject.contents() == expected); });
}

TEST_CASE("growable_device_vector: insert that fails keeps the size and what is before") {
  std::vector<element12> expected = series<element12>(0, size_before);
  expected.insert(expected.begin() + 400, 3, numbered<element12>(7));
  sweep_moving_member("insert", expected, [](vector_of_12& v, stream_ref stream) {
    v.insert(400, 3, numbered<element12>(7), stream);
  });
  std::vector<element12> doubled = series<element12>(0, size_before);
  const std::vector<element12> own = doubled;
  doubled.insert(doubled.begin() + 400, own.begin(), own.end());
  sweep_moving_member("insert of its own", doubled,
                      [](vector_of_12& v, stream_ref stream) { v.insert(400, v, stream); });
}

TEST_CASE("growable_device_vector: erase that fails keeps the size and what is before") {
  std::vector<element12> expected = series<element12>(0, size_before);
  expected.erase(expected.begin() + 400, expected.begin() + 405);
  sweep_moving_member("erase", expected,
                      [](vector_of_12& v, stream_ref stream) { v.erase(400, 5, stream); });
}

TEST_CASE("growable_device_vector: a construction with contents that fails leaves nothing") {
  const stream stream;
  const std::vector<element12> source = series<element12>(0, size_before);
  fault_sweep{"construction from a range", after_failure::capacity}.run([&] {
    const vector_of_12 made{source, stream};
  });
}

TEST_CASE("growable_device_vector: shrink_to_fit that fails keeps every element") {
  for (const auto tail : {tail_chunk::keep, tail_chunk::replace}) {
    sweep_member("shrink_to_fit", series<element12>(0, size_before),
                 [&](vector_of_12& v, stream_ref stream) {
                   v.reserve(500'000);
                   v.shrink_to_fit(stream, tail);
                 });
  }
}

TEST_CASE("growable_device_vector: grant and revoke that fail change no right") {
  const auto sweep_right = [](const char* name, access_right right) {
    fault_sweep{name}.run<moving_vector>(
        [&](auto& subject) { subject.vector.grant(reading_device, right); },
        [](auto& subject) { subject.check_unchanged(); },
        [&](auto& subject) {
          CHECK(subject.vector.access(reading_device) == right);
          if (!on_fallback()) CHECK(get_access(subject.vector.data(), reading_device) == right);
        });
  };
  sweep_right("grant", access_right::read_write);
  // On hipMalloc it makes no HIP call.
  if (!on_fallback()) sweep_right("revoke", access_right::none);
}

TEST_CASE("growable_device_vector: set_access that fails changes no right") {
  fault_sweep{"set_access"}.run<moving_vector>(
      [&](auto& subject) {
        subject.vector.set_access({{reading_device, access_right::read_write}});
      },
      [](auto& subject) { subject.check_unchanged(); },
      [&](auto& subject) {
        CHECK(subject.vector.access(reading_device) == access_right::read_write);
      });
}

TEST_CASE("growable_device_vector: a construction with rights that fails leaves nothing") {
  fault_sweep{"construction with rights"}.run([] {
    vector_of_12 vector{first_device,
                        {.chunks = {.access = {{reading_device, access_right::read_write}}}}};
    vector.reserve(1000);
  });
}

TEST_CASE("growable_device_vector: clone that fails leaves nothing") {
  fault_sweep{"clone"}.run<moving_vector>(
      [](auto& subject) {
        // A stream of its own: if the fault is in the clone's destructor, which then cannot
        // wait, the copy loses its target, and that is this stream's error.
        const hipvmm::stream stream{filling_device};
        const unordered_on_purpose memory_may_go_before_the_copy;
        const vector_of_12 copied = subject.vector.clone(stream);
        CHECK(copied.size() == size_before);
      },
      [](auto& subject) { subject.check_unchanged(); },
      [](auto& subject) { subject.check_unchanged(); });
}

}  // namespace
}  // namespace hipvmm::test

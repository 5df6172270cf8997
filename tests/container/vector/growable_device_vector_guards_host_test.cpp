// SPDX-License-Identifier: MIT
// Failing HIP calls in work-arounds for defects of AMD's runtime: docs/guides/rocm.md,
// copy_across_reservations and peer_copy_owner_only.
#include "container/container_test.hpp"
#include "support/host/fault_sweep.hpp"
#include "support/region/assumed_capability.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t guarded_size = 1000;

/// A vector of 1,000 elements that may have 8 MiB, with other addresses behind them.
struct guarded_vector {
  hipvmm::stream stream{first_device};
  vector_of_12 vector{first_device, options()};
  address_reservation blocker = block_addresses_at(advance(vector.data(), 8 * MiB));
  const element12* const data = vector.data();

  guarded_vector() {
    vector.grant(second_device, access_right::read_write);
    vector.append(series<element12>(0, guarded_size), stream);
    stream.synchronize();
  }
  static growth_options options() { return growth_options{.max_bytes = 8 * MiB}; }
  [[nodiscard]] std::vector<element12> contents() const { return vector.copy_to_host(stream); }
};

void check_unchanged(guarded_vector& subject) {
  CHECK(subject.vector.size() == guarded_size);
  CHECK(subject.vector.data() == subject.data);
  CHECK(subject.vector.access(second_device) == access_right::read_write);
  CHECK(subject.contents() == series<element12>(0, guarded_size));
}

TEST_CASE("growable_device_vector: a move to one reservation that fails changes nothing" *
          needs_virtual_memory) {
  const assumed_capability no_crossing{"crosses_reservations=no"};
  REQUIRE(capability_of(first_device).needs(quirk::one_reservation));
  const std::size_t wanted = guarded_vector{}.vector.max_size() + 1;
  drain_retired_memory();  // memory of that subject is none of the sweep's
  fault_sweep{"reserve past max_size", after_failure::capacity}.run<guarded_vector>(
      [&](auto& subject) { subject.vector.reserve(wanted); }, check_unchanged,
      [&](auto& subject) {
        CHECK(subject.vector.capacity() >= wanted);
        CHECK(subject.contents() == series<element12>(0, guarded_size));
        // Both ends of the new memory are open to the peer.
        CHECK(get_access(subject.vector.data(), second_device) == access_right::read_write);
        CHECK(get_access(subject.vector.data() + wanted - 1, second_device) ==
              access_right::read_write);
      });
}

TEST_CASE(
    "growable_device_vector: an append from a peer that has a right, failing, changes nothing" *
    needs_virtual_memory) {
  const assumed_capability owner_copies{"peer_copies=no"};
  struct pair {
    guarded_vector target;
    vector_of_12 source{second_device};
    pair() {
      source.grant(first_device, access_right::read_write);
      const hipvmm::stream stream{second_device};
      source.append(series<element12>(guarded_size, 500), stream);
      stream.synchronize();
    }
  };
  fault_sweep{"append_from_device", after_failure::capacity}.run<pair>(
      [](auto& both) {
        both.target.vector.append_from_device(both.source.span(), both.target.stream);
      },
      [](auto& both) { CHECK(both.target.contents() == series<element12>(0, guarded_size)); },
      [](auto& both) {
        CHECK(both.target.contents() == series<element12>(0, guarded_size + 500));
      });
}

TEST_CASE("growable_device_vector: an append from a peer without a right makes no copy" *
          needs_virtual_memory) {
  const assumed_capability owner_copies{"peer_copies=no"};
  vector_of_12 source{second_device};
  source.grant(first_device, access_right::read_write);
  const stream there{second_device};
  source.append(series<element12>(0, 500), there);
  there.synchronize();
  vector_of_12 target{first_device};
  const stream stream;
  target.append(series<element12>(0, guarded_size), stream);
  const hipvmm_host_counters before = live_objects();
  for (const char* const call : {"hipMemcpyAsync", "hipMemcpyDtoDAsync", "hipMemcpyPeerAsync"}) {
    CAPTURE(call);
    const call_counter copies{call};
    CHECK_THROWS_AS(target.append_from_device(source.span(), stream), unsupported);
    CHECK(copies.count() == 0);
  }
  CHECK(live_objects() == before);
  CHECK(target.copy_to_host(stream) == series<element12>(0, guarded_size));
}

TEST_CASE("growable_device_vector: an append asks the device that its chunks moved to" *
          needs_virtual_memory) {
  const assumed_capability owner_copies{"peer_copies=no", second_device};
  const stream here{first_device};
  const stream there{second_device};
  vector_of_12 source{first_device};
  source.grant(second_device);
  source.append(series<element12>(0, 500), here);
  here.synchronize();
  vector_of_12 target{first_device};
  target.grant(second_device);
  target.append(series<element12>(0, guarded_size), there);
  const chunk_view last = target.chunks().back();
  target.move_range(0, last.offset + last.bytes, second_device, there);
  target.grant(first_device, access_right::read);
  CHECK_THROWS_WITH_AS(target.append_from_device(source.span(), there),
                       doctest::Contains("into a vector with memory of device 1"), unsupported);
  target.grant(first_device);
  target.append_from_device(source.span(), there);
  CHECK(target.size() == guarded_size + 500);
}

TEST_CASE("growable_device_vector: a clone of chunks that moved to another device" *
          needs_virtual_memory) {
  const stream stream{first_device};
  vector_of_12 vector{first_device};
  vector.grant(second_device);
  vector.append(series<element12>(0, guarded_size), stream);
  vector.move_range(0, vector.chunks().front().bytes, second_device, stream);
  const vector_of_12 copy = vector.clone(stream);
  CHECK(copy.copy_to_host(stream) == series<element12>(0, guarded_size));
  CHECK(copy.access(second_device) == access_right::read_write);
}

}  // namespace
}  // namespace hipvmm::test

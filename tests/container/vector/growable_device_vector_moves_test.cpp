// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

struct two_vectors {
  hipvmm::stream stream;
  growable_device_vector<element8> a;
  growable_device_vector<element8> b;

  two_vectors() {
    a.append(series<element8>(0, 10), stream);
    b.append(series<element8>(10, 20), stream);
  }
};

TEST_CASE_FIXTURE(two_vectors,
                  "growable_device_vector: one that was moved from can be used again") {
  const vector_of_8 target = std::move(a);
  a.append(series<element8>(50, 5), stream);
  CHECK(a.max_size() > 0);
  CHECK(a.copy_to_host(stream) == series<element8>(50, 5));
  CHECK(target.copy_to_host(stream) == series<element8>(0, 10));
}

TEST_CASE_FIXTURE(two_vectors,
                  "growable_device_vector: calls on one that was moved from are well defined") {
  const vector_of_8 target = std::move(a);
  CHECK(a.max_size() == 0);
  CHECK(a.copy_to_host(stream).empty());
  CHECK(a.statistics().chunks == 0);
  CHECK(a.device() == first_device);
  CHECK_NOTHROW(a.clear());
  CHECK_NOTHROW(a.resize(0, stream));
  CHECK_NOTHROW(a.resize_uninitialized(0));
  CHECK_NOTHROW(a.reserve(0));
  CHECK_NOTHROW(a.append(nullptr, 0, stream));
  CHECK_THROWS_AS(a.pop_back(), std::out_of_range);
  CHECK_THROWS_AS(static_cast<void>(a.element(0, stream)), std::out_of_range);
  CHECK(a.clone(stream).empty());
  CHECK(a.access(device_ref{1}) == access_right::none);
}

TEST_CASE_FIXTURE(
    two_vectors, "growable_device_vector: a grant to one that was moved from holds when it grows") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const vector_of_8 target = std::move(a);
  a.grant(peer, peer_right());
  a.append(series<element8>(0, 5), stream);
  if (!on_fallback()) CHECK(get_access(a.data(), peer) == peer_right());
  CHECK(target.access(peer) == access_right::none);
}

TEST_CASE_FIXTURE(two_vectors,
                  "growable_device_vector: swapping exchanges elements and addresses") {
  const element8* const data_of_a = a.data();
  const element8* const data_of_b = b.data();
  swap(a, b);
  CHECK(a.data() == data_of_b);
  CHECK(b.data() == data_of_a);
  CHECK(a.copy_to_host(stream) == series<element8>(10, 20));
  CHECK(b.copy_to_host(stream) == series<element8>(0, 10));
  a.swap(b);
  a.swap(a);
  CHECK(a.copy_to_host(stream) == series<element8>(0, 10));
}

TEST_CASE_FIXTURE(two_vectors,
                  "growable_device_vector: a clone has the elements and memory of its own") {
  vector_of_8 copied = a.clone(stream);
  CHECK(copied.copy_to_host(stream) == series<element8>(0, 10));
  CHECK(copied.data() != a.data());
  copied.set_element(0, numbered<element8>(99), stream);
  a.push_back(numbered<element8>(10), stream);
  CHECK(a.copy_to_host(stream) == series<element8>(0, 11));
  CHECK(copied.size() == 10);
}

TEST_CASE("growable_device_vector: a clone has the device, options and rights") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream{peer};
  vector_of_8 original{peer, {.max_bytes = 4 * granule(), .past_max = past_max_size::refuse}};
  original.grant(first_device, peer_right());
  original.append(series<element8>(0, 10), stream);
  vector_of_8 copied = original.clone(stream);
  CHECK(copied.device() == peer);
  CHECK(copied.max_size() == original.max_size());
  CHECK(copied.access(first_device) == peer_right());
  if (!on_fallback()) CHECK(get_access(copied.data(), first_device) == peer_right());
  CHECK_THROWS_AS(copied.reserve(copied.max_size() + 1), std::length_error);
}

TEST_CASE("growable_device_vector: an assigned one grows in the steps of the other") {
  vector_of_8 source{first_device, {.granule_bytes = 6 * granule()}};
  vector_of_8 target;
  target = std::move(source);
  target.reserve(1);
  CHECK(target.capacity() * sizeof(element8) == 6 * granule());
}

TEST_CASE("growable_device_vector: a moved-from one counts from zero") {
  vector_of_8 source{first_device, {.max_bytes = granule()}};
  source.reserve(1);
  source.reserve(source.max_size() + 1);
  const vector_of_8 target = std::move(source);
  CHECK(target.statistics().growth_steps == 2);
  const growth_statistics left = source.statistics();
  CHECK(left.growth_steps == 0);
  CHECK(left.base_moves == 0);
  CHECK(left.peak_bytes == 0);
  CHECK(left.copied_bytes == 0);
}

TEST_CASE("growable_device_vector: the clone of one whose owner has no right gives it none" *
          needs_virtual_memory) {
  const stream stream;
  vector_of_8 original;
  original.revoke(first_device);
  vector_of_8 copied = original.clone(stream);
  CHECK(copied.access(first_device) == access_right::none);
}

TEST_CASE("growable_device_vector: the clone of an empty one is empty and backs nothing") {
  const stream stream;
  const vector_of_8 copied = vector_of_8{}.clone(stream);
  CHECK(copied.empty());
  CHECK(copied.capacity() == 0);
  CHECK(copied.max_size() > 0);
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "container/container_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("growable_device_vector: its own device may read and write, no other may do anything") {
  const vector_of_8 vector;
  CHECK(vector.access(first_device) == access_right::read_write);
  CHECK(vector.access(device_ref{1}) == access_right::none);
}

TEST_CASE("growable_device_vector: a grant to write lets the other device's streams write") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  const hipvmm::stream of_peer{peer};
  vector_of_8 vector;
  vector.grant(peer);
  vector.append(series<element8>(0, 10), stream);
  stream.synchronize();
  vector.set_element(3, numbered<element8>(99), of_peer);
  of_peer.synchronize();
  CHECK(vector.element(3, stream) == numbered<element8>(99));
}

TEST_CASE("growable_device_vector: a device without a link throws unsupported and gets nothing") {
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  vector_of_8 vector;
  vector.resize_uninitialized(10);
  CHECK_THROWS_AS(vector.grant(stranger), unsupported);
  CHECK(vector.access(stranger) == access_right::none);
  if (!on_fallback()) CHECK(get_access(vector.data(), stranger) == access_right::none);
}

TEST_CASE("growable_device_vector: an unknown device throws invalid_argument") {
  vector_of_8 vector;
  CHECK_THROWS_AS(vector.grant(device_ref{device_count()}), std::invalid_argument);
  CHECK_THROWS_AS(vector.revoke(device_ref{-1}), std::invalid_argument);
}

/// Whether HIP has the right of `device` to every chunk of `vector`.
bool all_chunks_give(const vector_of_8& vector, device_ref device, access_right right) {
  if (on_fallback()) return vector.access(device) == right;
  const std::vector<chunk_access> found = vector.effective_access();
  return !found.empty() && std::all_of(found.begin(), found.end(), [&](const chunk_access& one) {
    return one.rights.find(device) == right;
  });
}

TEST_CASE("growable_device_vector: its options give rights to all elements, when it moves too") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  const growth_options options{.max_bytes = 2 * MiB, .chunks = {.access = {{peer, peer_right()}}}};
  vector_of_8 vector{first_device, options};
  CHECK(vector.access(peer) == peer_right());
  vector.append(series<element8>(0, 1000), stream);
  CHECK(all_chunks_give(vector, peer, peer_right()));
  vector.resize(1'000'000, stream);
  CHECK(all_chunks_give(vector, peer, peer_right()));
  CHECK(all_chunks_give(vector, first_device, access_right::read_write));
  // A vector that was moved from begins anew.
  vector.revoke(peer);
  const vector_of_8 taken = std::move(vector);
  CHECK(taken.access(peer) == access_right::none);
  vector.append(series<element8>(0, 10), stream);
  CHECK(all_chunks_give(vector, peer, peer_right()));
}

TEST_CASE("growable_device_vector: options with rights that cannot be are refused") {
  growth_options options{
      .chunks = {.access = {{device_ref{device_count()}, access_right::read_write}}}};
  CHECK_THROWS_AS((vector_of_8{first_device, options}), std::invalid_argument);
  HIPVMM_REQUIRE_DEVICE(stranger, stranger_to(first_device), "device that cannot reach the first");
  options.chunks.access = {{stranger, access_right::read_write}};
  CHECK_THROWS_AS((vector_of_8{first_device, options}), unsupported);
}

TEST_CASE("growable_device_vector: set_access replaces all rights, to elements to come too") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  vector_of_8 vector;
  vector.append(series<element8>(0, 1000), stream);
  vector.set_access(all_reachable_peers(first_device, peer_right()));
  CHECK(all_chunks_give(vector, peer, peer_right()));
  vector.resize(1'000'000, stream);
  CHECK(all_chunks_give(vector, peer, peer_right()));
  const vector_of_8 copy = vector.clone(stream);
  stream.synchronize();
  CHECK(all_chunks_give(copy, peer, peer_right()));
  vector.set_access({});
  CHECK(all_chunks_give(vector, peer, access_right::none));
  CHECK(all_chunks_give(vector, first_device, access_right::read_write));
  CHECK(vector.copy_to_host(stream).size() == 1'000'000);
}

TEST_CASE("growable_device_vector: a clone has no right that was revoked from the options'") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "second device that reaches the first");
  const stream stream;
  vector_of_8 vector{first_device, {.chunks = {.access = {{peer, peer_right()}}}}};
  vector.append(series<element8>(0, 10), stream);
  vector.revoke(peer);
  const vector_of_8 copy = vector.clone(stream);
  stream.synchronize();
  CHECK(all_chunks_give(copy, peer, access_right::none));
}

TEST_CASE("growable_device_vector: effective_access of hipMalloc memory is unsupported" *
          needs_fallback) {
  vector_of_8 vector;
  CHECK_THROWS_AS(static_cast<void>(vector.effective_access()), unsupported);
}

TEST_CASE("growable_device_vector: a clone of read-only elements is read-only" *
          needs_virtual_memory) {
  const stream stream;
  growable_device_vector<int> vector{3, 7, stream};
  stream.synchronize();
  vector.set_access({{first_device, access_right::read}});
  const growable_device_vector<int> copy = vector.clone(stream);
  CHECK(copy.access(first_device) == access_right::read);
  CHECK(copy.copy_to_host(stream) == std::vector<int>(3, 7));
}

TEST_CASE("growable_device_vector: its own elements can be made read-only" * needs_virtual_memory) {
  const stream stream;
  vector_of_8 vector;
  vector.append(series<element8>(0, 1000), stream);
  stream.synchronize();
  vector.set_access({{first_device, access_right::read}});
  CHECK(all_chunks_give(vector, first_device, access_right::read));
  CHECK(vector.copy_to_host(stream) == series<element8>(0, 1000));
}

}  // namespace
}  // namespace hipvmm::test

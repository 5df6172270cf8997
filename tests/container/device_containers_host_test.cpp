// SPDX-License-Identifier: MIT
#include <hipvmm/container/device_buffer.hpp>
#include <hipvmm/container/device_scalar.hpp>
#include "container/container_test.hpp"
#include "runtime/peer_copies.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"
#include "support/resource/watched_resource.hpp"

// device_buffer, device_uvector and device_scalar if HIP fails; and they wait for
// nothing if their resource does not.
namespace hipvmm::test {
namespace {

// Not the current one, so that switching devices is swept as well.
constexpr device_ref other_device{1};
// If hipFree fails, memory is lost to the process; other tests fill the first device to its last
// granule.
constexpr device_ref spare_device{2};
constexpr std::size_t old_bytes = 1000;

/// A buffer of another device, in use.
struct buffer_subject {
  hipvmm::stream stream{other_device};
  mr::hip_resource resource{other_device};
  byte_vector bytes = pattern(old_bytes, 1);
  std::optional<device_buffer> buffer;
  void* data = nullptr;

  buffer_subject() {
    const scoped_device scope{other_device};
    buffer.emplace(bytes.data(), bytes.size(), stream, &resource);
    buffer->reserve(2 * old_bytes, stream);
    data = buffer->data();
  }
  void check_unchanged() const {
    CHECK(buffer->data() == data);
    CHECK(buffer->size() == old_bytes);
    CHECK(buffer->capacity() == 2 * old_bytes);
    CHECK(buffer->stream() == stream.ref());
    CHECK(read_bytes(stream, data, old_bytes) == bytes);
  }
};

template <typename Operation>
void sweep_buffer(const char* name, std::size_t size, std::size_t capacity, Operation operation) {
  const stream later{other_device};
  fault_sweep{name}.run<buffer_subject>(
      [&](auto& subject) { operation(*subject.buffer, later); },
      [](auto& subject) { subject.check_unchanged(); },
      [&](auto& subject) {
        CHECK(subject.buffer->size() == size);
        CHECK(subject.buffer->capacity() == capacity);
        CHECK(subject.buffer->stream() == later.ref());
        CHECK(read_bytes(later, subject.buffer->data(), old_bytes) == subject.bytes);
      });
}

TEST_CASE("device_buffer: growth that fails changes nothing") {
  sweep_buffer("resize", 5000, 5000,
               [](device_buffer& buffer, stream_ref stream) { buffer.resize(5000, stream); });
  sweep_buffer("reserve", old_bytes, 5000,
               [](device_buffer& buffer, stream_ref stream) { buffer.reserve(5000, stream); });
}

TEST_CASE("device_buffer: shrink_to_fit that fails changes nothing") {
  sweep_buffer("shrink_to_fit", old_bytes, old_bytes,
               [](device_buffer& buffer, stream_ref stream) { buffer.shrink_to_fit(stream); });
}

TEST_CASE("device_buffer: constructions that fail leave nothing") {
  const scoped_device current{spare_device};
  const byte_vector bytes = pattern(old_bytes, 2);
  const stream stream;
  fault_sweep{"copy from the host"}.run([&] {
    const device_buffer made{bytes.data(), bytes.size(), stream};
  });
  if (detail::copies_need_links()) return;  // these two have none
  const buffer_subject source;
  fault_sweep{"copy from another device"}.run([&] {
    const device_buffer made{*source.buffer, stream};
  });
}

TEST_CASE("device_uvector: element access that fails leaves the elements") {
  const scoped_device current{spare_device};
  struct vector_subject {
    hipvmm::stream stream;
    device_uvector<element<12>> vector{2, stream};
    vector_subject() {
      vector.set_element(0, numbered<element<12>>(0), stream);
      vector.set_element(1, numbered<element<12>>(1), stream);
    }
  };
  const auto value_of = [](auto& subject) { return subject.vector.element(1, subject.stream); };
  fault_sweep{"set_element"}.run<vector_subject>(
      [](auto& subject) {
        subject.vector.set_element(1, numbered<element<12>>(9), subject.stream);
      },
      // Only the wait behind the copy may have failed.
      [&](auto& subject) {
        CHECK(subject.vector.element(0, subject.stream) == numbered<element<12>>(0));
      },
      [&](auto& subject) { CHECK(value_of(subject) == numbered<element<12>>(9)); });
  fault_sweep{"element"}.run<vector_subject>(
      [&](auto& subject) { static_cast<void>(value_of(subject)); },
      [&](auto& subject) { CHECK(value_of(subject) == numbered<element<12>>(1)); },
      [&](auto& subject) { CHECK(value_of(subject) == numbered<element<12>>(1)); });
}

TEST_CASE("device_scalar: constructions that fail leave nothing") {
  const scoped_device current{spare_device};
  const stream stream;
  fault_sweep{"device_scalar"}.run([&] { const device_scalar<double> made{2.5, stream}; });
}

TEST_CASE("device_buffer: memory goes back though its device cannot be made current") {
  const error_recorder reported;
  const hipvmm_host_counters before = live_objects();
  {
    const auto subject = std::make_unique<buffer_subject>();
    const planned_fault fault{"hipSetDevice", 1, hipErrorUnknown};
    subject->buffer.reset();
    CHECK(fault.struck());
  }
  CHECK(live_objects() == before);
  REQUIRE(reported.count() == 1);
  CHECK(reported.errors().front().call == "hipSetDevice");
}

/// The first allocation of a pool may wait: for its mappings, or to free misaligned memory.
void warm(mr::vmm_pool_resource& pool) {
  {
    const stream stream;
    const device_buffer first{8 * MiB, stream, &pool};
  }
  drain_retired_memory();
}

TEST_CASE("device_buffer: over a pool nothing is waited for, and work keeps its order") {
  mr::vmm_pool_resource pool{first_device};
  pinned_memory source{MiB};
  const byte_vector bytes = pattern(MiB, 3);
  std::copy(bytes.begin(), bytes.end(), source.get());
  warm(pool);
  pinned_memory result{MiB};
  blocked_stream stream{first_device};
  {
    const calls_of waits{waiting_functions};
    device_buffer buffer{source.get(), MiB, stream, &pool};
    buffer.resize(2 * MiB, stream);
    buffer.resize(MiB, stream);
    buffer.shrink_to_fit(stream);
    const device_buffer copied{buffer, stream, &pool};
    copy_async(stream, result.get(), copied.data(), MiB);
    CHECK(waits.count() == 0);
  }
  CHECK_FALSE(stream.is_done());
  stream.release();
  stream_ref{stream}.synchronize();
  CHECK(byte_vector(result.get(), result.get() + MiB) == bytes);
}

TEST_CASE("device_uvector: elements are set without waiting for the stream") {
  mr::vmm_pool_resource pool{first_device};
  warm(pool);
  blocked_stream blocked{first_device};
  const stream_ref stream = blocked;
  const calls_of waits{waiting_functions};
  device_uvector<element<12>> vector{4, stream, &pool};
  {
    const element<12> fifth = numbered<element<12>>(5);
    vector.set_element_async(2, fifth, stream);
  }
  vector.set_element_to_zero_async(3, stream);
  CHECK(waits.count() == 0);
  blocked.release();
  CHECK(vector.element(2, stream) == numbered<element<12>>(5));
  CHECK(vector.element(3, stream) == element<12>{});
}

TEST_CASE("device_buffer: goes back in the stream of its last resize, with all it asked for") {
  const stream first{first_device};
  const stream second{first_device};
  watched_resource resource{first_device};
  {
    device_buffer buffer{64 * KiB, first, &resource};
    buffer.resize(KiB, second);
    CHECK(resource.deallocations.empty());
  }
  REQUIRE(resource.deallocations.size() == 1);
  CHECK(resource.deallocations.front().stream == second.get());
  CHECK(resource.deallocations.front().bytes == 64 * KiB);
}

TEST_CASE("device_buffer: is copied between devices by a call that names both") {
  constexpr device_ref other{1};
  const stream used{first_device};
  watched_resource here{first_device};
  watched_resource there{other};
  const device_buffer source{KiB, used, &here};
  const call_counter copies{"hipMemcpyPeerAsync"};
  const scoped_device scope{other};
  const stream own{other};
  const device_buffer target{source, own, &there};
  CHECK(copies.count() == 1);
  own.synchronize();
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
// erase_front beside work in flight, and if memory returns with its addresses only.
#include "container/container_test.hpp"
#include "support/device_memory.hpp"
#include "support/device_use.hpp"
#include "support/host/host_provider.hpp"
#include "support/region/region_contents.hpp"

namespace hipvmm::test {
namespace {

constexpr std::size_t step_bytes = 2 * MiB;
constexpr std::size_t steps_reserved = 8;

growth_options exact_steps(std::size_t steps = steps_reserved) {
  return growth_options{.max_bytes = steps * step_bytes, .step_limit = 0};
}

/// A queue of four chunks, all bytes of which are 0x42.
struct filled_queue {
  hipvmm::stream stream;
  growable_device_vector<element<1>> vector{first_device, exact_steps()};

  filled_queue() {
    for (std::size_t steps = 1; steps <= 4; ++steps)
      vector.resize(steps * step_bytes, element<1>{{0x42}}, stream);
    stream.synchronize();
    drain_retired_memory();
  }
};

TEST_CASE_FIXTURE(filled_queue,
                  "growable_device_vector: erased chunks stay until work in flight has passed" *
                      needs_virtual_memory) {
  const pinned_memory result{2 * step_bytes};
  blocked_stream reading{first_device};
  copy_async(reading, result.get(), vector.data(), 2 * step_bytes);
  {
    const call_counter unmaps{"hipMemUnmap"};
    const calls_of waits{waiting_functions};
    vector.erase_front(2 * step_bytes, reading);
    CHECK(unmaps.count() == 0);
    CHECK(waits.count() == 0);
  }
  CHECK(retired_memory().waiting_bytes == 2 * step_bytes);
  // Another stream appends meanwhile, without a wait for the reader.
  vector.resize(3 * step_bytes, element<1>{{7}}, stream);
  stream.synchronize();
  CHECK_FALSE(reading.is_done());
  reading.release();
  drain_retired_memory();
  static_cast<stream_ref>(reading).synchronize();
  CHECK(byte_vector(result.get(), result.get() + 2 * step_bytes) ==
        byte_vector(2 * step_bytes, 0x42));
  CHECK(retired_memory().waiting_bytes == 0);
}

TEST_CASE_FIXTURE(filled_queue,
                  "growable_device_vector: what is partly erased is not written to by appends") {
  const pinned_memory result{step_bytes / 2};
  blocked_stream reading{first_device};
  copy_async(reading, result.get(), vector.data() + 3 * step_bytes, step_bytes / 2);
  vector.erase_front(vector.size() - step_bytes / 2, reading);
  const auto release = [&] {
    reading.release();
    static_cast<stream_ref>(reading).synchronize();
    CHECK(byte_vector(result.get(), result.get() + step_bytes / 2) ==
          byte_vector(step_bytes / 2, 0x42));
  };
  // On hipMalloc growth waits for the reader, and also if rights are set for all mappings at once.
  const bool waits = on_fallback() || !takes_any_layout();
  if (waits) release();
  vector.resize(4 * step_bytes, element<1>{{7}}, stream);
  stream.synchronize();
  if (!waits) release();
}

TEST_CASE(
    "growable_device_vector: the end of a queue with erased chunks in use waits for nothing") {
  const pinned_memory result{4 * step_bytes};
  auto queue = std::make_unique<filled_queue>();
  auto reading = std::make_unique<blocked_stream>(first_device);
  copy_async(*reading, result.get(), queue->vector.data(), 4 * step_bytes);
  queue->vector.erase_front(3 * step_bytes, *reading);
  const calls_of waits{waiting_functions};
  queue->vector = growable_device_vector<element<1>>{first_device, exact_steps()};
  CHECK_FALSE(reading->is_done());
  reading->release();
  static_cast<stream_ref>(*reading).synchronize();
  drain_retired_memory();
  CHECK(byte_vector(result.get(), result.get() + 4 * step_bytes) ==
        byte_vector(4 * step_bytes, 0x42));
}

TEST_CASE_FIXTURE(filled_queue,
                  "growable_device_vector: erase_front takes a stream of any device") {
  vector.grant(second_device);  // before: on ROCm 7.14 a grant waits for work under way
  blocked_stream of_stranger{device_ref{2}};
  blocked_stream of_peer{second_device};
  vector.erase_front(step_bytes, of_peer);
  CHECK_FALSE(of_peer.is_done());
  of_peer.release();
  of_stranger.release();  // there an unmap waits for all streams too
  drain_retired_memory();
  CHECK(vector.element(0, stream) == element<1>{{0x42}});
}

TEST_CASE("growable_device_vector: a queue never holds more than what is left and a step" *
          needs_virtual_memory) {
  if (capability_of(first_device).needs(quirk::re_reserve)) {
    MESSAGE("skipped: memory returns with its addresses only");
    return;
  }
  const stream stream;
  chunk_cache nothing_kept;
  growth_options options = exact_steps(32);
  options.chunks.cache = &nothing_kept;
  chunk_cache::shared().trim();
  const std::size_t free = free_memory_at_rest(first_device);
  growable_device_vector<element<1>> vector{first_device, options};
  for (int round = 0; round < 200; ++round) {
    vector.resize(vector.size() + step_bytes / 2, stream);
    if (round >= 2) vector.erase_front(step_bytes / 2, stream);
    stream.synchronize();
    drain_retired_memory();
    CHECK(free - first_device.free_memory() <= 3 * step_bytes);
  }
}

// 72 MiB go through a device of 48 MiB.
HIPVMM_TEST_CASE_IN("growable_device_vector: a queue goes on where only addresses return memory",
                    {"HIPVMM_HOST_PROFILE=rocm-6.4", "HIPVMM_HOST_MEMORY=48MiB",
                     "HIPVMM_CAPABILITY=assume:returns_memory=no,returns_with_addresses=yes"}) {
  const stream stream;
  chunk_cache nothing_kept;
  growth_options options = exact_steps(512);
  options.granule_bytes = step_bytes / 2;
  options.chunks.cache = &nothing_kept;
  growable_device_vector<element<1>> vector{first_device, options};
  for (int round = 1; round <= 16; ++round) {
    const std::size_t size = static_cast<std::size_t>(1 + round % 8) * step_bytes / 2;
    vector.resize(vector.size() + size, element<1>{{static_cast<unsigned char>(round)}}, stream);
    vector.erase_front(vector.size() - size, stream);
    CHECK(vector.element(0, stream) == element<1>{{static_cast<unsigned char>(round)}});
  }
  // Growth takes the chunks that the addresses pin, so that nothing has to move.
  CHECK(vector.statistics().base_moves == 0);
}

}  // namespace
}  // namespace hipvmm::test

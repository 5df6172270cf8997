// SPDX-License-Identifier: MIT
#include <hipvmm/container/pinned_array.hpp>

#include "container/container_test.hpp"
#include "support/device_memory.hpp"
#include "support/host/host_test.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("pinned_array: a construction that fails leaves nothing") {
  fault_sweep{"pinned_array"}.run([] { const pinned_array<int> made{1000}; });
}

/// An array that a held stream is about to copy to a device.
struct array_in_use {
  device_memory target{KiB, second_device};
  blocked_stream stream{second_device};
  std::unique_ptr<pinned_array<unsigned char>> array =
      std::make_unique<pinned_array<unsigned char>>(KiB);

  array_in_use() {
    std::fill(array->begin(), array->end(), static_cast<unsigned char>(0x42));
    copy_async(stream, target.get(), array->data(), KiB);
  }
  /// Runs `end`, which must wait for the stream before the memory is freed.
  template <typename End>
  void check_waits(End end) {
    const calls_of waits{waiting_functions};
    const call_counter frees{"hipHostFree"};
    std::thread worker{end};
    while (waits.count() == 0 && frees.count() == 0) std::this_thread::yield();
    CHECK(frees.count() == 0);
    stream.release();
    worker.join();
    CHECK(frees.count() == 1);
    CHECK(read_bytes(stream, target.get(), KiB) == byte_vector(KiB, 0x42));
  }
};

TEST_CASE("pinned_array: the destructor waits for copies under way in streams of any device") {
  array_in_use subject;
  subject.check_waits([&] { subject.array.reset(); });
}

TEST_CASE_FIXTURE(array_in_use, "pinned_array: assignment waits for copies under way") {
  check_waits([&] { *array = {}; });
}

TEST_CASE_FIXTURE(array_in_use, "pinned_array: reset waits for its stream") {
  check_waits([&] { array->reset(stream); });
  CHECK(array->empty());
}

}  // namespace
}  // namespace hipvmm::test

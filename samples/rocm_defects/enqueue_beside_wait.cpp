// SPDX-License-Identifier: MIT
// A stream has work that is held. One thread waits for the device, another enqueues more work.
#include "defect.hpp"

int main() {
  begin("a stream takes work while another thread waits for its device");
  constexpr std::size_t bytes = 4096;
  void* memory = nullptr;
  hipStream_t stream;
  REQUIRE(hipMalloc(&memory, bytes));
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  REQUIRE(hipMemsetAsync(memory, 0, bytes, stream));
  REQUIRE(hipDeviceSynchronize());

  gate held{stream};
  REQUIRE(hipMemsetAsync(memory, 1, bytes, stream));
  std::thread waiting{[] { REQUIRE(hipDeviceSynchronize()); }};
  // The wait has begun by then.
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  std::atomic<bool> is_taken{false};
  std::thread enqueuing{[&] {
    REQUIRE(hipMemsetAsync(memory, 2, bytes, stream));
    is_taken = true;
  }};
  const bool was_taken = comes_true([&] { return is_taken.load(); });
  held.open();
  enqueuing.join();
  waiting.join();

  std::printf("got       with the stream still held: hipMemsetAsync %s\n",
              was_taken ? "returned" : "waited on the host");
  if (!was_taken) finish(defect_seen, "it waited until the stream had passed");
  finish(as_documented, "it returned");
}

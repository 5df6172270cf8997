// SPDX-License-Identifier: MIT
// hipStreamDestroy in one thread, hipDeviceSynchronize in another, while the stream has work.
#include "defect.hpp"

int main() {
  begin("hipDeviceSynchronize waits for work of a stream that another thread is destroying");
  constexpr std::size_t bytes = 1 << 20;
  void *memory = nullptr, *pinned = nullptr;
  hipStream_t stream;
  REQUIRE(hipMalloc(&memory, bytes));
  REQUIRE(hipHostMalloc(&pinned, bytes, 0));
  REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  REQUIRE(hipDeviceSynchronize());

  gate held{stream};
  REQUIRE(hipMemcpyAsync(memory, pinned, bytes, hipMemcpyHostToDevice, stream));
  std::atomic<bool> is_destroyed{false}, is_synchronized{false};
  std::thread destroyer{[&] {
    REQUIRE(hipStreamDestroy(stream));
    is_destroyed = true;
  }};
  // On AMD the call waits for the stream; give it the time to begin.
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  std::thread synchronizer{[&] {
    REQUIRE(hipDeviceSynchronize());
    is_synchronized = true;
  }};
  const bool was_early = comes_true([&] { return is_synchronized.load(); });
  const bool was_destroyed = is_destroyed;
  held.open();
  destroyer.join();
  synchronizer.join();

  std::printf("got       with the copy still held: hipStreamDestroy %s, hipDeviceSynchronize %s\n",
              was_destroyed ? "returned" : "waited", was_early ? "returned" : "waited");
  if (was_early) finish(defect_seen, "it returned before the copy began");
  finish(as_documented, "it waited for the copy");
}

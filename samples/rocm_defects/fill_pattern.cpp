// SPDX-License-Identifier: MIT
// Many fills of one stream, each of its own word, while the device is behind: the runtime keeps the
// words in memory that it uses again. Another stream holds the hardware queue, which both share, at
// the time when the first has to wait for such memory.
#include <vector>

#include "defect.hpp"

namespace {

constexpr int fills = 20000;
std::atomic<int> submitted{0};

void submit(hipStream_t stream, int* words) {
  for (int i = 0; i < fills; ++i, ++submitted)
    REQUIRE(hipMemsetD32Async(reinterpret_cast<hipDeviceptr_t>(words + i), i + 1, 1, stream));
}

// Until all fills are submitted, or none within 300 ms: then the submitting thread waits.
void wait_until_stopped() {
  for (int before = -1; before != submitted && submitted < fills;) {
    before = submitted;
    static_cast<void>(comes_true([=] { return submitted != before; }, 300));
  }
}

}  // namespace

int main() {
  setenv("GPU_MAX_HW_QUEUES", "1", 1);
  begin("each fill of a stream writes its own word");
  int* words = nullptr;
  hipStream_t one, two;
  REQUIRE(hipMalloc(reinterpret_cast<void**>(&words), fills * sizeof(int)));
  REQUIRE(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
  REQUIRE(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
  gate first{one};
  std::thread submitter{submit, one, words};
  wait_until_stopped();
  const int ahead = submitted;
  gate second{two};
  first.open();
  wait_until_stopped();
  second.open();
  submitter.join();
  REQUIRE(hipStreamSynchronize(one));

  std::vector<int> got(fills);
  REQUIRE(hipMemcpy(got.data(), words, fills * sizeof(int), hipMemcpyDeviceToHost));
  std::printf("got       %d fills were submitted ahead of the device\n", ahead);
  int wrong = 0;
  for (int i = 0; i < fills; ++i)
    if (got[i] != i + 1 && wrong++ == 0)
      std::printf("got       fill %d wrote the word of fill %d\n", i, got[i] - 1);
  if (wrong != 0)
    finish(defect_seen, std::to_string(wrong) + " of 20000 fills wrote another's word");
  finish(as_documented, "each wrote its own");
}

// SPDX-License-Identifier: MIT
// Threads, each with a stream of its own, make it wait for events of the other threads' streams,
// then wait for it and destroy it. An event may be waited for after its stream. A race: while one
// thread asks for the wait, another destroys the event's stream. Freed host memory is
// overwritten, so that its use is seen. Control: no thread destroys its stream before all have
// asked. The argument: milliseconds.
#include <malloc.h>
#include <pthread.h>

#include "defect.hpp"

namespace {

constexpr int threads = 3;
constexpr std::size_t bytes = 4096;

struct race {
  pthread_barrier_t all;
  char* memory = nullptr;
  hipEvent_t ready[threads] = {}, done[threads] = {};
  std::atomic<int> rounds{0};

  // Submits work of this thread on memory of the others, and has theirs wait for it.
  void run(int self, bool together) {
    while (true) {
      hipStream_t stream;
      REQUIRE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
      char* const own = memory + 2 * bytes * self;
      REQUIRE(hipMemsetAsync(own, 1, bytes, stream));
      REQUIRE(hipEventRecord(ready[self], stream));
      pthread_barrier_wait(&all);
      for (int other = 0; other < threads; ++other) {
        if (other == self) continue;
        REQUIRE(hipStreamWaitEvent(stream, ready[other], 0));
        REQUIRE(hipMemcpyAsync(own + bytes, memory + 2 * bytes * other, bytes,
                               hipMemcpyDeviceToDevice, stream));
      }
      REQUIRE(hipEventRecord(done[self], stream));
      pthread_barrier_wait(&all);
      for (int other = 0; other < threads; ++other)
        if (other != self) REQUIRE(hipStreamWaitEvent(stream, done[other], 0));
      if (together) pthread_barrier_wait(&all);
      REQUIRE(hipStreamSynchronize(stream));
      REQUIRE(hipStreamDestroy(stream));
      ++rounds;
    }
  }
};

int ask(bool together, std::chrono::milliseconds duration) {
  mallopt(M_PERTURB, 165);
  auto& its = *new race;  // its threads use it until the process ends
  pthread_barrier_init(&its.all, nullptr, threads);
  REQUIRE(hipMalloc(reinterpret_cast<void**>(&its.memory), 2 * bytes * threads));
  for (int each = 0; each < threads; ++each) {
    REQUIRE(hipEventCreateWithFlags(&its.ready[each], hipEventDisableTiming));
    REQUIRE(hipEventCreateWithFlags(&its.done[each], hipEventDisableTiming));
  }
  for (int each = 0; each < threads; ++each)
    std::thread{[&its, each, together] { its.run(each, together); }}.detach();
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    void* other = nullptr;
    REQUIRE(hipMalloc(&other, 1));
    REQUIRE(hipFree(other));
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }
  const int rounds = its.rounds;
  const bool goes_on = comes_true([&] { return its.rounds > rounds; });
  std::printf("          %s: %d rounds%s\n",
              together ? "destroyed when all have asked" : "destroyed at once", rounds / threads,
              goes_on ? "" : ", then no thread went on for 2 s");
  return goes_on ? as_documented : defect_seen;
}

}  // namespace

int main(int argc, char** argv) {
  const std::chrono::milliseconds duration{argc > 1 ? std::atoi(argv[1]) : 16'000};
  const int together = in_child([&] { return ask(true, duration / 2); });
  const int alone = in_child([&] { return ask(false, duration / 2); });
  begin("a stream may wait for an event whose stream another thread destroys");
  if (together != 0) finish(cannot_ask, "the control failed, see above");
  if (alone == cannot_ask) finish(cannot_ask, "see above");
  if (alone != 0) finish(defect_seen, "the process was ended, or its threads stood still");
  finish(as_documented, "all calls returned");
}

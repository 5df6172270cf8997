// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("signal: a wait returns the value that met the condition, though it is stored again") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const hsa_signal_t signal = make_signal(1);
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) {
        hsa_signal_store_relaxed(signal, 0);
        hsa_signal_silent_store_relaxed(signal, 1);
      }
    });
    for (int i = 0; i < 2000; ++i) {
      EXPECT(hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, ~std::uint64_t{0},
                                       HSA_WAIT_STATE_BLOCKED) == 0);
    }
    stop = true;
    other.join();
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("signal: a handler is called until it returns false") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    static std::atomic<int> calls{0};
    const hsa_signal_t signal = make_signal(1);
    const hsa_signal_t done = make_signal(1);
    static hsa_signal_t finished;
    finished = done;
    EXPECT(hsa_amd_signal_async_handler(
               signal, HSA_SIGNAL_CONDITION_LT, 1,
               [](hsa_signal_value_t value, void*) {
                 EXPECT(value == 0);
                 if (++calls < 3) return true;
                 hsa_signal_store_screlease(finished, 0);
                 return false;
               },
               nullptr) == HSA_STATUS_SUCCESS);
    EXPECT(calls == 0);
    hsa_signal_store_screlease(signal, 0);
    wait(done);
    EXPECT(calls == 3);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("queue: a barrier waits for all of its signals, or for one") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    launcher all(on, on.gpus[0], {fill_kernel()});
    launcher any(on, on.gpus[0], {fill_kernel()});
    const hsa_signal_t one = make_signal();
    const hsa_signal_t two = make_signal();
    const hsa_signal_t all_done = all.barrier({one, two});
    const hsa_signal_t any_done = any.barrier({one, two}, false);
    hsa_signal_store_screlease(two, 0);
    wait(any_done);
    EXPECT(hsa_signal_wait_scacquire(all_done, HSA_SIGNAL_CONDITION_LT, 1, 10000000,
                                     HSA_WAIT_STATE_BLOCKED) == 1);
    hsa_signal_subtract_relaxed(one, 1);
    wait(all_done);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("queue: packets wrap around the ring in order") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    launcher by(on, on.gpus[0], {fill_kernel()});
    char* const data = on.allocate(on.gpus[0], 64);
    for (int i = 1; i <= 300; ++i) {
      wait(start_fill(by, on, data, 64, static_cast<unsigned char>(i)));
      EXPECT(data[63] == static_cast<char>(i));
    }
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("queue: one that waits for ever can be destroyed") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    {
      launcher by(on, on.gpus[0], {fill_kernel()});
      by.barrier({make_signal()});
    }
    launcher held(on, on.gpus[0], {fill_kernel()});
    rocr_stand_in_hold(0);
    held.barrier({});
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

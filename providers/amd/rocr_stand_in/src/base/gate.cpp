// SPDX-License-Identifier: MIT
#include "src/base/gate.hpp"

#include <condition_variable>
#include <mutex>

#include "src/base/clock.hpp"
#include "src/base/knobs.hpp"

namespace stand_in {
namespace {

struct state {
  std::mutex lock;
  std::condition_variable changed;
  std::atomic<std::uint64_t> held{0};  // a bit for each GPU
  std::atomic<std::uint64_t> delay{knobs().delay_us};
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

std::uint64_t bits_of(int gpu) { return gpu < 0 ? ~std::uint64_t{0} : std::uint64_t{1} << gpu; }

}  // namespace

void hold_gpu(int gpu) {
  std::lock_guard guard(the_state().lock);
  the_state().held |= bits_of(gpu);
}

void release_gpu(int gpu) {
  {
    std::lock_guard guard(the_state().lock);
    the_state().held &= ~bits_of(gpu);
  }
  the_state().changed.notify_all();
}

void set_delay(std::uint64_t microseconds) { the_state().delay = microseconds; }

bool pass_gate(unsigned gpu, const std::atomic<bool>* stop) {
  state& now = the_state();
  const std::uint64_t bit = bits_of(static_cast<int>(gpu));
  if ((now.held.load() & bit) != 0) {
    std::unique_lock guard(now.lock);
    now.changed.wait(
        guard, [&] { return (now.held.load() & bit) == 0 || (stop != nullptr && stop->load()); });
  }
  if (const std::uint64_t delay = now.delay.load(); delay != 0) sleep_microseconds(delay);
  return stop == nullptr || !stop->load();
}

void wake_gates() {
  { std::lock_guard guard(the_state().lock); }
  the_state().changed.notify_all();
}

}  // namespace stand_in

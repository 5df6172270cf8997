// SPDX-License-Identifier: MIT
#include "src/signal/signal_handlers.hpp"

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "src/base/lifetime.hpp"
#include "src/signal/signal.hpp"

namespace stand_in {
namespace {

struct handler {
  hsa_signal_t signal;
  hsa_signal_condition_t condition;
  std::int64_t value;
  hsa_amd_signal_handler call;
  void* argument;
};

struct state {
  std::mutex lock;
  std::condition_variable wake;
  std::list<handler> handlers;
  bool look = false;
  bool started = false;
};

state& the_state() {
  static auto* made = new state;
  return *made;
}

void unlist(handler& each) {
  if (each.signal.handle != 0) signal_of(each.signal)->handlers.fetch_sub(1);
}

// Calls the first handler whose condition holds, without the lock. False if there is none.
bool call_one(state& all, std::unique_lock<std::mutex>& guard) {
  for (auto at = all.handlers.begin(); at != all.handlers.end(); ++at) {
    const std::int64_t value = at->signal.handle != 0 ? load_signal(at->signal) : 0;
    if (at->signal.handle != 0 && !condition_holds(at->condition, value, at->value)) continue;
    std::list<handler> taken;
    taken.splice(taken.end(), all.handlers, at);
    unlist(taken.front());
    guard.unlock();
    const bool again = runtime_open() && taken.front().call(value, taken.front().argument);
    guard.lock();
    if (again) {
      if (taken.front().signal.handle != 0) signal_of(taken.front().signal)->handlers.fetch_add(1);
      all.handlers.splice(all.handlers.end(), taken);
    }
    return true;
  }
  return false;
}

void serve() {
  state& all = the_state();
  std::unique_lock guard(all.lock);
  for (;;) {
    all.wake.wait(guard, [&] { return all.look; });
    all.look = false;
    while (call_one(all, guard)) {
    }
  }
}

}  // namespace

void add_handler(hsa_signal_t handle, hsa_signal_condition_t condition, std::int64_t value,
                 hsa_amd_signal_handler call, void* argument) {
  state& all = the_state();
  {
    std::lock_guard guard(all.lock);
    if (handle.handle != 0) signal_of(handle)->handlers.fetch_add(1);
    all.handlers.push_back({handle, condition, value, call, argument});
    all.look = true;
    if (!all.started) {
      std::thread(serve).detach();
      all.started = true;
    }
  }
  all.wake.notify_one();
}

void remove_handlers(hsa_signal_t handle) {
  if (signal_of(handle)->handlers.load() == 0) return;
  std::lock_guard guard(the_state().lock);
  the_state().handlers.remove_if(
      [&](const handler& each) { return each.signal.handle == handle.handle; });
}

void wake_handlers() {
  state& all = the_state();
  {
    std::lock_guard guard(all.lock);
    if (all.handlers.empty()) return;
    all.look = true;
  }
  all.wake.notify_one();
}

}  // namespace stand_in

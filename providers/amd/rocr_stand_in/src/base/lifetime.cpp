// SPDX-License-Identifier: MIT
#include "src/base/lifetime.hpp"

#include <atomic>

#include <pthread.h>

namespace stand_in {
namespace {

std::atomic<int> opened{0};
std::atomic<bool> forked{false};

}  // namespace

void open_runtime() {
  static const bool registered = pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0;
  static_cast<void>(registered);
  opened.fetch_add(1);
}

bool close_runtime() {
  int now = opened.load();
  while (now > 0) {
    if (opened.compare_exchange_weak(now, now - 1)) return true;
  }
  return false;
}

bool runtime_open() { return opened.load(std::memory_order_relaxed) > 0; }

bool after_fork() { return forked.load(std::memory_order_relaxed); }

}  // namespace stand_in

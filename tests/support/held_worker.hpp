// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <future>

#include "core/background_task.hpp"

namespace hipvmm::test {

/// While this lives, the background worker is busy with it, and submitted tasks wait.
class held_worker {
 public:
  held_worker() {
    REQUIRE(task_.submit());
    begun_.get_future().wait();
  }
  ~held_worker() { release(); }
  held_worker& operator=(held_worker&&) = delete;

  void release() {
    if (released_) return;
    released_ = true;
    let_go_.set_value();
  }

 private:
  bool released_ = false;
  std::promise<void> begun_;
  std::promise<void> let_go_;
  detail::background_task task_{[this] {
    begun_.set_value();
    let_go_.get_future().wait();
  }};
};

}  // namespace hipvmm::test

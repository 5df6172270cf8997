// SPDX-License-Identifier: MIT
#pragma once

#include "ipc/budget/budget_test.hpp"

namespace hipvmm::test {

/// A table, and processes that take part, which are all this one.
struct shared_table {
  const std::unique_ptr<detail::budget_layout> layout = std::make_unique<detail::budget_layout>();
  std::vector<std::unique_ptr<detail::budget_table>> holders;

  explicit shared_table(std::uint64_t limit) { layout->header.limit = limit; }
  detail::budget_table& add(int priority = 0) {
    holders.push_back(std::make_unique<detail::budget_table>(*layout));
    REQUIRE(holders.back()->join(detail::own_process_identity(), priority, "holder"));
    return *holders.back();
  }
};

inline detail::process_identity dead_process() {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return static_cast<detail::process_identity>(child) << 40 | 1;
}

/// Calls a function at a step of a claim, the first time only.
class at_step {
 public:
  at_step(const char* step, std::function<void()> call) {
    wanted = step;
    body = std::move(call);
    detail::protocol_step_hook = run;
  }
  ~at_step() { detail::protocol_step_hook = nullptr; }
  at_step& operator=(at_step&&) = delete;

 private:
  static int run(const char* step) {
    if (body && wanted == step) std::exchange(body, nullptr)();
    return 0;
  }
  static inline std::string wanted;
  static inline std::function<void()> body;
};

}  // namespace hipvmm::test

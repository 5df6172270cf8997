// SPDX-License-Identifier: MIT
#include "region/sleep/copy_jobs.hpp"

#include "region/region_test.hpp"
#include "support/waiting_thread.hpp"

namespace hipvmm::test {
namespace {

TEST_CASE("copy_jobs: the wait for a failed job throws, the add of a later one does not") {
  detail::copy_jobs jobs;
  std::atomic<bool> ran{false};
  jobs.add([] {});
  jobs.add([] { throw std::runtime_error{"no copy"}; });
  CHECK_THROWS_WITH_AS(jobs.wait_for(2), "no copy", std::runtime_error);
  CHECK_NOTHROW(jobs.add([&] { ran = true; }));
  CHECK_FALSE(happens([&] { return ran.load(); }));
  CHECK_NOTHROW(jobs.wait_for(1));
  CHECK_THROWS_WITH_AS(jobs.wait_for(3), "no copy", std::runtime_error);
  jobs.cancel();
  CHECK_FALSE(ran);
}

TEST_CASE("copy_jobs: after a failed job no waiting job begins") {
  detail::copy_jobs jobs;
  std::promise<void> gate;
  std::atomic<bool> ran{false};
  jobs.add([&] {
    gate.get_future().wait();
    throw std::runtime_error{"no copy"};
  });
  jobs.add([&] { ran = true; });
  gate.set_value();
  CHECK_THROWS_AS(jobs.wait_for(2), std::runtime_error);
  jobs.cancel();
  CHECK_FALSE(ran);
}

TEST_CASE("copy_jobs: after a cancel the running job ends and none begins") {
  detail::copy_jobs jobs;
  std::promise<void> begun;
  std::promise<void> gate;
  std::atomic<int> ran{0};
  jobs.add([&] {
    begun.set_value();
    gate.get_future().wait();
  });
  for (int i = 0; i < 10; ++i) jobs.add([&] { ++ran; });
  begun.get_future().wait();
  opened_by_wait opener{[&] { gate.set_value(); }};
  jobs.cancel();
  CHECK(opener.was_waited_for());
  CHECK(ran == 0);
}

}  // namespace
}  // namespace hipvmm::test

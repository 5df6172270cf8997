// SPDX-License-Identifier: MIT
#include "region/sleep/copy_jobs.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

namespace hipvmm::test {
namespace {

TEST_CASE("copy_jobs: the wait for a job that failed says so, and not who adds one behind it") {
  detail::copy_jobs jobs;
  bool ran = false;
  jobs.add([] {});
  jobs.add([] { throw std::runtime_error{"no copy"}; });
  CHECK_THROWS_WITH_AS(jobs.wait_for(2), "no copy", std::runtime_error);
  CHECK_NOTHROW(jobs.add([&] { ran = true; }));
  CHECK_NOTHROW(jobs.wait_for(1));
  CHECK_THROWS_WITH_AS(jobs.wait_for(3), "no copy", std::runtime_error);
  jobs.cancel();
  CHECK_FALSE(ran);
}

}  // namespace
}  // namespace hipvmm::test

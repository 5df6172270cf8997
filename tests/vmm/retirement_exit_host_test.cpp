// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/retirement.hpp>

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include <hipvmm/vmm/region.hpp>
#include "support/child_process.hpp"
#include "support/devices.hpp"
#include "support/error_recorder.hpp"
#include "support/host_provider.hpp"
#include "support/region_contents.hpp"

namespace hipvmm::test {
namespace {

std::atomic<bool> exiting{false};

void wait_for_exit(void*) {
  while (!exiting) std::this_thread::yield();
}

// A handler that runs before the library's, which was registered at the first retirement.
void let_go_at_exit() {
  REQUIRE(std::atexit([] { exiting = true; }) == 0);
}

region backed_region() {
  region made{first_device, 8 * granule()};
  for (std::size_t index = 0; index < 4; ++index) made.commit(index * granule(), granule());
  return made;
}

TEST_CASE("child: ends with memory that waits" * doctest::skip()) {
  {
    // Ends after the library's handler, for on AMD the end of a stream waits for its work.
    static const stream stream;
    region trimmed = backed_region();
    region destroyed = backed_region();
    REQUIRE(hipLaunchHostFunc(stream.get(), wait_for_exit, nullptr) == hipSuccess);
    fill_async(stream, trimmed.base(), 1, 4 * granule());
    fill_async(stream, destroyed.base(), 1, 4 * granule());
    trimmed.trim(granule(), stream);
    trimmed.retire();
    destroyed.retire();
    CHECK(retired_memory().waiting == 3);
  }
  let_go_at_exit();
  std::exit(0);
}

TEST_CASE("child: ends with memory that waits and a region that ends after all" * doctest::skip()) {
  struct late {
    region value = backed_region();
    ~late() { value.retire(); }
  };
  // Constructed before the library's handler is registered, and so destroyed after it has run.
  static const late kept;
  region destroyed = backed_region();
  destroyed.retire();
  std::exit(0);
}

TEST_CASE("child: a fork of a process with memory that waits ends" * doctest::skip()) {
  const stream stream;
  region destroyed = backed_region();
  REQUIRE(hipLaunchHostFunc(stream.get(), wait_for_exit, nullptr) == hipSuccess);
  fill_async(stream, destroyed.base(), 1, 4 * granule());
  destroyed.retire();
  const ::pid_t child = ::fork();
  if (child == 0) std::exit(7);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  exiting = true;
}

void end_process(const char*, int, const char*) noexcept { std::exit(5); }

TEST_CASE("child: an error handler ends the process in the thread" * doctest::skip()) {
  set_error_handler(end_process);
  region destroyed = backed_region();
  const planned_fault fault{"hipMemUnmap", 1, hipErrorUnknown};
  destroyed.retire();
  for (;;) ::pause();
}

TEST_CASE("retirement: nothing that waits is lost at exit") {
  const child_result child =
      run_case_in_child("child: ends with memory that waits", {"HIPVMM_HOST_LEAKS=1"});
  CHECK_MESSAGE(child.status == 0, child.output);
}

TEST_CASE("retirement: regions of static storage may end after it") {
  const child_result child =
      run_case_in_child("child: ends with memory that waits and a region that ends after all",
                        {"HIPVMM_HOST_LEAKS=1"});
  CHECK_MESSAGE(child.status == 0, child.output);
}

TEST_CASE("retirement: a fork does not wait for threads that it has not got") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // What another thread held of their locks at the fork stays locked in the child of GCC 12.
  MESSAGE("skipped: the sanitizers do not survive a fork beside other threads");
  return;
#endif
  const child_result child =
      run_case_in_child("child: a fork of a process with memory that waits ends");
  CHECK_MESSAGE(passed(child), child.output);
}

TEST_CASE("retirement: an error handler may end the process in its thread" * needs_virtual_memory) {
  const child_result child =
      run_case_in_child("child: an error handler ends the process in the thread");
  CHECK_MESSAGE(child.status == 5, child.output);
}

}  // namespace
}  // namespace hipvmm::test

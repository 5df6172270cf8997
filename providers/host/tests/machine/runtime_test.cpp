// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

// Freed while the process ends, after everything else of the program is gone.
struct outliving {
  void* memory = nullptr;
  hipStream_t stream = nullptr;

  ~outliving() {
    if (memory == nullptr) return;
    const bool done = hipMemsetAsync(memory, 1, 64, stream) == hipSuccess &&
                      hipStreamSynchronize(stream) == hipSuccess &&
                      hipStreamDestroy(stream) == hipSuccess && hipFree(memory) == hipSuccess;
    if (!done) std::_Exit(99);
  }
};

outliving at_exit;

}  // namespace

HIPVMM_TEST_CASE_IN("runtime: calls made while the process ends still work", {}) {
  CHECK(hipMalloc(&at_exit.memory, 64) == hipSuccess);
  CHECK(hipStreamCreate(&at_exit.stream) == hipSuccess);
}

TIDY_CASE("runtime: a child after fork starts afresh and does not know inherited handles") {
  const mapped mapping{granule};
  const memory shareable{granule, 0, hipMemHandleTypePosixFileDescriptor};
  const stream work;
  REQUIRE(hipMemsetAsync(mapping.at(), 1, granule, work.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(hipStreamPerThread) == hipSuccess);
  REQUIRE(work.wait() == hipSuccess);
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipSetDevice(99) == hipErrorInvalidDevice);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Nothing here starts a thread, which ThreadSanitizer does not allow after a fork.
    void* memory = nullptr;
    int device = -1;
    const bool afresh = live_objects() == hipvmm_host_counters{} &&
                        hipPeekAtLastError() == hipSuccess && hipGetDevice(&device) == hipSuccess &&
                        device == 0 && hipStreamQuery(work.get()) == hipErrorInvalidHandle &&
                        hipStreamQuery(hipStreamPerThread) == hipSuccess &&
                        hipMalloc(&memory, 64) == hipSuccess &&
                        hipMemcpy(memory, &child, sizeof(child), hipMemcpyDefault) == hipSuccess &&
                        hipFree(memory) == hipSuccess;
    std::_Exit(afresh ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

#ifndef __SANITIZE_THREAD__  // allows no threads after a fork
TIDY_CASE("runtime: a child after fork runs work that its parent's holds do not hold") {
  const held_streams held;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(10);
    hipStream_t work = nullptr;
    bool ran = false;
    const bool runs = hipStreamCreate(&work) == hipSuccess &&
                      hipLaunchHostFunc(work, set_flag, &ran) == hipSuccess &&
                      hipStreamSynchronize(work) == hipSuccess && ran;
    std::_Exit(runs ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

// SPDX-License-Identifier: MIT
// Start, end, fork and exit.
#include <doctest/doctest.h>

#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("lifetime: nothing works before hsa_init() and behind the last hsa_shut_down()") {
  const outcome got = in_child({}, [] {
    hsa_signal_t signal{};
    EXPECT(hsa_signal_create(0, 0, nullptr, &signal) == HSA_STATUS_ERROR_NOT_INITIALIZED);
    EXPECT(hsa_init() == HSA_STATUS_SUCCESS);
    EXPECT(hsa_init() == HSA_STATUS_SUCCESS);
    EXPECT(hsa_shut_down() == HSA_STATUS_SUCCESS);
    EXPECT(hsa_signal_create(0, 0, nullptr, &signal) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_shut_down() == HSA_STATUS_SUCCESS);
    EXPECT(hsa_shut_down() == HSA_STATUS_ERROR_NOT_INITIALIZED);
    EXPECT(hsa_signal_create(0, 0, nullptr, &signal) == HSA_STATUS_ERROR_NOT_INITIALIZED);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("lifetime: the process ends while queues and engines wait for ever") {
  const outcome got = in_child({}, [] {
    static hsa_system on;
    static launcher by(on, on.gpus[0], {fill_kernel()});
    by.barrier({make_signal()});
    char* const data = on.allocate(on.gpus[0], 64);
    start_copy(data, on.gpus[0], on.allocate(on.cpu, 64), on.cpu, 64, {make_signal()});
    hsa_amd_signal_async_handler(
        make_signal(), HSA_SIGNAL_CONDITION_LT, 1, [](hsa_signal_value_t, void*) { return true; },
        nullptr);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("lifetime: in the child of a fork() calls fail and it ends") {
  const outcome got = in_child({}, [] {
    static hsa_system on;
    static launcher by(on, on.gpus[0], {fill_kernel()});
    const hsa_signal_t never = by.barrier({make_signal()});
    const pid_t child = fork();
    if (child == 0) {
      EXPECT(hsa_init() == HSA_STATUS_ERROR_NOT_INITIALIZED);
      hsa_amd_vmem_alloc_handle_t made{};
      EXPECT(hsa_amd_vmem_handle_create({0}, 4096, MEMORY_TYPE_NONE, 0, &made) ==
             HSA_STATUS_ERROR_NOT_INITIALIZED);
      wait(never);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char* const data = on.allocate(on.gpus[1], 64);
    wait(start_copy(data, on.gpus[1], on.allocate(on.cpu, 64), on.cpu, 64));
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("history: the control function tells what is and was at an address") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    const auto history = [&] {
      char text[1024];
      rocr_stand_in_history(memory.at + 5, text, sizeof text);
      return std::string(text);
    };
    EXPECT(history().find("Now there: mapping") == 0);
    EXPECT(history().find("Before") == std::string::npos);
    hsa_amd_vmem_unmap(memory.at, memory.bytes);
    EXPECT(history().find("(offset 5), unmapped by thread") != std::string::npos);
    hsa_amd_vmem_address_free(memory.at, memory.bytes);
    EXPECT(history().find("Before: reservation") != std::string::npos);
    EXPECT(history().find("freed by thread") != std::string::npos);
    EXPECT(rocr_stand_in_history(memory.at, nullptr, 0) > 20);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <chrono>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("fault plan: the nth call of a function fails with its status and does nothing") {
  const outcome got =
      in_child({"FAULTS=hsa_amd_vmem_handle_create:2=OUT_OF_RESOURCES,"
                "hsa_amd_vmem_unmap:1=0x1000"},
               [] {
                 hsa_system on;
                 const mapped_memory memory(on, on.gpus[0], 2 * MiB);
                 hsa_amd_vmem_alloc_handle_t made{};
                 EXPECT(hsa_amd_vmem_handle_create(on.pool(on.gpus[0]), 4096, MEMORY_TYPE_NONE, 0,
                                                   &made) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
                 EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_ERROR);
                 EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
               });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("fault plan: a function is slow, each call, and fails besides as planned") {
  const outcome got =
      in_child({"FAULTS=hsa_signal_create=2000us,hsa_signal_create:2=OUT_OF_RESOURCES"}, [] {
        hsa_system on;
        hsa_signal_t made{};
        for (const hsa_status_t expected :
             {HSA_STATUS_SUCCESS, HSA_STATUS_ERROR_OUT_OF_RESOURCES, HSA_STATUS_SUCCESS}) {
          const auto start = std::chrono::steady_clock::now();
          EXPECT(hsa_signal_create(0, 0, nullptr, &made) == expected);
          EXPECT(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds{2});
        }
      });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("fault plan: control functions plan, cancel and count") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    EXPECT(rocr_stand_in_fail_call("hsa_signal_create", 2, HSA_STATUS_ERROR_OUT_OF_RESOURCES) == 0);
    hsa_signal_t made{};
    EXPECT(hsa_signal_create(0, 0, nullptr, &made) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_signal_create(0, 0, nullptr, &made) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(rocr_stand_in_fail_call("hsa_signal_create", 1, HSA_STATUS_ERROR) == 0);
    EXPECT(rocr_stand_in_fail_call("hsa_signal_create", 0, 0) == 0);
    EXPECT(hsa_signal_create(0, 0, nullptr, &made) == HSA_STATUS_SUCCESS);
    std::uint64_t calls = 0;
    EXPECT(rocr_stand_in_calls("hsa_signal_create", &calls) == 0);
    EXPECT(calls == 3);
    EXPECT(rocr_stand_in_calls("hsa_queue_create", &calls) == 0);
    EXPECT(calls == 0);
    EXPECT(rocr_stand_in_calls("hsa_no_such_function", &calls) == -1);
    EXPECT(rocr_stand_in_fail_call("rocr_stand_in_hold", 1, HSA_STATUS_ERROR) == -1);
    EXPECT(rocr_stand_in_fail_call("hsa_signal_create", 1, HSA_STATUS_SUCCESS) == -1);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

// SPDX-License-Identifier: MIT
// Copy engines: order, dependencies, holding back, and which agent works.
#include <doctest/doctest.h>

#include <cstring>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("copy: one engine works in order, another does not wait for it") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const device = on.allocate(on.gpus[0], 4096);
    char* const host = on.allocate(on.cpu, 8192);
    const hsa_signal_t gate = make_signal();
    const hsa_signal_t first = start_copy(device, on.gpus[0], host, on.cpu, 64, {gate});
    const hsa_signal_t second = start_copy(device + 64, on.gpus[0], host, on.cpu, 64);
    const hsa_signal_t other = start_copy(host + 4096, on.cpu, device + 128, on.gpus[0], 64);
    wait(other);
    EXPECT(hsa_signal_load_scacquire(first) == 1);
    EXPECT(hsa_signal_load_scacquire(second) == 1);
    hsa_signal_store_screlease(gate, 0);
    wait(second);
    EXPECT(hsa_signal_load_scacquire(first) == 0);
    hsa_amd_profiling_async_copy_time_t one{};
    hsa_amd_profiling_async_copy_time_t two{};
    hsa_amd_profiling_get_async_copy_time(first, &one);
    hsa_amd_profiling_get_async_copy_time(second, &two);
    EXPECT(one.start <= one.end);
    EXPECT(one.end <= two.start);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("copy: a named engine does not wait for the default one") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const device = on.allocate(on.gpus[0], 4096);
    char* const host = on.allocate(on.cpu, 4096);
    const hsa_signal_t gate = make_signal();
    start_copy(device, on.gpus[0], host, on.cpu, 64, {gate});
    const hsa_signal_t done = make_signal();
    EXPECT(hsa_amd_memory_async_copy_on_engine(device + 64, on.gpus[0], host, on.cpu, 64, 0,
                                               nullptr, done, HSA_AMD_SDMA_ENGINE_5,
                                               true) == HSA_STATUS_SUCCESS);
    wait(done);
    EXPECT(hsa_amd_memory_async_copy_on_engine(device, on.gpus[0], host, on.cpu, 64, 0, nullptr,
                                               done, static_cast<hsa_amd_sdma_engine_id_t>(3),
                                               true) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    hsa_signal_store_screlease(gate, 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("copy: a GPU has as many engines as ENGINES says") {
  for (const std::uint32_t count : {1U, 2U, 5U}) {
    const outcome got = in_child({"ENGINES=" + std::to_string(count)}, [count] {
      hsa_system on;
      std::uint32_t told = 0;
      hsa_agent_get_info(on.gpus[0], static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_NUM_SDMA_ENG),
                         &told);
      EXPECT(told == count);
      for (const hsa_agent_t from : {on.gpus[0], on.cpu}) {
        const hsa_agent_t to = from.handle == on.cpu.handle ? on.gpus[0] : on.cpu;
        std::uint32_t engines = 0;
        EXPECT(hsa_amd_memory_copy_engine_status(to, from, &engines) == HSA_STATUS_SUCCESS);
        EXPECT(engines != 0);
        EXPECT(engines >> count == 0);
        EXPECT(hsa_amd_memory_get_preferred_copy_engine(to, from, &engines) == HSA_STATUS_SUCCESS);
        EXPECT(engines >> count == 0);
      }
    });
    CHECK_MESSAGE(got.finished, got.errors);
  }
}

TEST_CASE("copy: a held GPU starts nothing, the other goes on") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const one = on.allocate(on.gpus[0], 64);
    char* const two = on.allocate(on.gpus[1], 64);
    char* const host = on.allocate(on.cpu, 64);
    EXPECT(rocr_stand_in_hold(0) == 0);
    const hsa_signal_t held = start_copy(one, on.gpus[0], host, on.cpu, 64);
    wait(start_copy(two, on.gpus[1], host, on.cpu, 64));
    EXPECT(hsa_signal_wait_scacquire(held, HSA_SIGNAL_CONDITION_LT, 1, 20000000,
                                     HSA_WAIT_STATE_BLOCKED) == 1);
    EXPECT(rocr_stand_in_release(0) == 0);
    wait(held);
    EXPECT(rocr_stand_in_hold(2) == -1);
    EXPECT(rocr_stand_in_hold(ROCR_STAND_IN_ALL) == 0);
    EXPECT(rocr_stand_in_release(ROCR_STAND_IN_ALL) == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("copy: between GPUs the source's agent works, or by COPY_AGENT the destination's") {
  const auto copy_to_owner = [] {
    hsa_system on;
    const mapped_memory from(on, on.gpus[0], 2 * MiB);
    const mapped_memory to(on, on.gpus[1], 2 * MiB);
    EXPECT(grant(from.at, from.bytes, on.gpus[1]) == HSA_STATUS_SUCCESS);
    from.at[5] = 6;
    wait(start_copy(to.at, on.gpus[1], from.at, on.gpus[0], 64));
    EXPECT(to.at[5] == 6);
  };
  CHECK(in_child({}, copy_to_owner).reported("not granted"));
  const outcome got = in_child({"COPY_AGENT=destination"}, copy_to_owner);
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("copy: rows of two layouts") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const from = on.allocate(on.cpu, 4096);
    char* const to = on.allocate(on.gpus[0], 4096);
    for (int i = 0; i < 4096; ++i) from[i] = static_cast<char>(i % 97 + 1);
    const hsa_pitched_ptr_t source{from, 32, 32 * 4};
    const hsa_pitched_ptr_t destination{to, 16, 16 * 4};
    const hsa_dim3_t source_offset{1, 1, 0};
    const hsa_dim3_t destination_offset{0, 0, 1};
    const hsa_dim3_t range{8, 2, 1};
    const hsa_signal_t done = make_signal();
    EXPECT(hsa_amd_memory_async_copy_rect(&destination, &destination_offset, &source,
                                          &source_offset, &range, on.gpus[0], hsaHostToDevice, 0,
                                          nullptr, done) == HSA_STATUS_SUCCESS);
    wait(done);
    EXPECT(std::memcmp(to + 64, from + 33, 8) == 0);
    EXPECT(std::memcmp(to + 80, from + 65, 8) == 0);
    EXPECT(to[72] == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("copy: DELAY_US lets each copy start later") {
  const outcome got = in_child({"DELAY_US=30000"}, [] {
    hsa_system on;
    char* const device = on.allocate(on.gpus[0], 64);
    char* const host = on.allocate(on.cpu, 64);
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before);
    wait(start_copy(device, on.gpus[0], host, on.cpu, 64));
    hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after);
    EXPECT(after - before >= 30000000);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

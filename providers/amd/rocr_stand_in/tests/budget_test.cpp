// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstring>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

std::uint64_t available(hsa_agent_t gpu) {
  std::uint64_t bytes = 0;
  hsa_agent_get_info(gpu, static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_MEMORY_AVAIL), &bytes);
  return bytes;
}

TEST_CASE("budget: allocations and handles share it, and the GPUs do not") {
  const outcome got = in_child({"MEMORY=64MiB", "GPUS=2"}, [] {
    hsa_system on;
    EXPECT(available(on.gpus[0]) == 64 * MiB);
    char* const first = on.allocate(on.gpus[0], 30 * MiB);
    const auto handle = on.create(on.gpus[0], 30 * MiB);
    EXPECT(available(on.gpus[0]) == 4 * MiB);
    EXPECT(available(on.gpus[1]) == 64 * MiB);
    hsa_amd_vmem_alloc_handle_t refused{};
    EXPECT(hsa_amd_vmem_handle_create(on.pool(on.gpus[0]), 6 * MiB, MEMORY_TYPE_NONE, 0,
                                      &refused) == HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    void* none = nullptr;
    EXPECT(hsa_amd_memory_pool_allocate(on.pool(on.gpus[0]), 6 * MiB, 0, &none) ==
           HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    EXPECT(hsa_amd_memory_pool_free(first) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_handle_release(handle) == HSA_STATUS_SUCCESS);
    EXPECT(available(on.gpus[0]) == 64 * MiB);
    std::uint64_t peak = 0;
    rocr_stand_in_memory(0, nullptr, &peak);
    EXPECT(peak == 60 * MiB);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("budget: holes between allocations make none fail") {
  const outcome got = in_child({"MEMORY=64MiB"}, [] {
    hsa_system on;
    std::vector<char*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(on.allocate(on.gpus[0], 4 * MiB));
    for (std::size_t i = 0; i < 16; i += 2) hsa_amd_memory_pool_free(blocks[i]);
    EXPECT(on.allocate(on.gpus[0], 32 * MiB) != nullptr);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("budget: memory that is freed reads as zero when it is allocated again") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const first = on.allocate(on.gpus[0], 2 * MiB);
    std::memset(first, 9, 2 * MiB);
    hsa_amd_memory_pool_free(first);
    char* const second = on.allocate(on.gpus[0], 2 * MiB);
    EXPECT(second == first);
    EXPECT(second[0] == 0);
    EXPECT(second[2 * MiB - 1] == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("budget: MEMORY_RETURN=address_free keeps memory until its addresses are freed") {
  for (const bool stays : {false, true}) {
    const char* const knob = stays ? "MEMORY_RETURN=address_free" : "MEMORY_RETURN=unmap";
    const outcome got = in_child({"MEMORY=64MiB", knob}, [stays] {
      hsa_system on;
      const mapped_memory memory(on, on.gpus[0], 8 * MiB);
      EXPECT(hsa_amd_vmem_handle_release(memory.handle) == HSA_STATUS_SUCCESS);
      EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
      EXPECT(available(on.gpus[0]) == (stays ? 56 : 64) * MiB);
      EXPECT(hsa_amd_vmem_address_free(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
      EXPECT(available(on.gpus[0]) == 64 * MiB);
    });
    CHECK_MESSAGE(got.finished, got.errors);
  }
}

TEST_CASE("budget: ADDRESSES=kept uses other addresses as long as there are any") {
  const outcome got = in_child({"ADDRESSES=kept"}, [] {
    hsa_system on;
    char* const first = on.allocate(on.gpus[0], 2 * MiB);
    hsa_amd_memory_pool_free(first);
    EXPECT(on.allocate(on.gpus[0], 2 * MiB) != first);
    char* const reserved = reserve(2 * MiB);
    hsa_amd_vmem_address_free(reserved, 2 * MiB);
    void* again = nullptr;
    hsa_amd_vmem_address_reserve(&again, 2 * MiB, reinterpret_cast<std::uint64_t>(reserved), 0);
    EXPECT(again != reserved);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

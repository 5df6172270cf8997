// SPDX-License-Identifier: MIT
// ROCr's checks and counts of virtual memory, in its order.
#include <doctest/doctest.h>

#include <csignal>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("vmem: map refuses in ROCr's order and changes nothing") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const at = reserve(4 * MiB);
    const auto handle = on.create(on.gpus[0], 2 * MiB);
    const auto map = [&](char* to, std::uint64_t bytes, hsa_amd_vmem_alloc_handle_t of) {
      return hsa_amd_vmem_map(to, bytes, 0, of, 0);
    };
    EXPECT(map(nullptr, 2 * MiB, handle) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(map(at, 0, handle) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(map(at + 3 * MiB, 2 * MiB, handle) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(map(at, 2 * MiB, {12345}) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(map(at, 4 * MiB, handle) == HSA_STATUS_ERROR);
    EXPECT(map(at, 2 * MiB, handle) == HSA_STATUS_SUCCESS);
    EXPECT(map(at + MiB, 2 * MiB, handle) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(hsa_amd_vmem_unmap(at + MiB, MiB) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
    EXPECT(hsa_amd_vmem_unmap(at, MiB) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(hsa_amd_vmem_address_free(at, 4 * MiB) == HSA_STATUS_ERROR_RESOURCE_FREE);
    EXPECT(hsa_amd_vmem_unmap(at, 2 * MiB) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_address_free(at, 2 * MiB) == HSA_STATUS_ERROR_INVALID_ARGUMENT);
    EXPECT(hsa_amd_vmem_address_free(at, 4 * MiB) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_address_free(at, 4 * MiB) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("vmem: released memory lives as long as its mappings") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    hsa_amd_vmem_alloc_handle_t again{};
    EXPECT(hsa_amd_vmem_retain_alloc_handle(&again, memory.at) == HSA_STATUS_SUCCESS);
    EXPECT(again.handle == memory.handle.handle);
    EXPECT(hsa_amd_vmem_handle_release(memory.handle) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_handle_release(memory.handle) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_handle_release(memory.handle) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
    std::uint64_t used = 0;
    rocr_stand_in_memory(0, &used, nullptr);
    EXPECT(used == 2 * MiB);
    EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
    rocr_stand_in_memory(0, &used, nullptr);
    EXPECT(used == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("vmem: rights are set for whole mappings and kept before one that is refused") {
  const outcome got = in_child({"PEERS=none", "GPUS=2"}, [] {
    hsa_system on;
    char* const at = reserve(6 * MiB);
    EXPECT(hsa_amd_vmem_map(at, 2 * MiB, 0, on.create(on.gpus[0], 2 * MiB), 0) ==
           HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_vmem_map(at + 4 * MiB, 2 * MiB, 0, on.create(on.gpus[0], 2 * MiB), 0) ==
           HSA_STATUS_SUCCESS);
    EXPECT(grant(at, 6 * MiB, on.gpus[0]) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
    EXPECT(grant(at + MiB, MiB, on.gpus[0]) == HSA_STATUS_ERROR_INVALID_ALLOCATION);
    const hsa_amd_memory_access_desc_t both[] = {{HSA_ACCESS_PERMISSION_RO, on.gpus[0]},
                                                 {HSA_ACCESS_PERMISSION_RW, on.gpus[1]}};
    EXPECT(hsa_amd_vmem_set_access(at, 2 * MiB, both, 2) == HSA_STATUS_ERROR);
    hsa_access_permission_t right{};
    EXPECT(hsa_amd_vmem_get_access(at, &right, on.gpus[0]) == HSA_STATUS_SUCCESS);
    EXPECT(right == HSA_ACCESS_PERMISSION_RO);
    EXPECT(hsa_amd_vmem_get_access(at, &right, on.gpus[1]) == HSA_STATUS_SUCCESS);
    EXPECT(right == HSA_ACCESS_PERMISSION_NONE);
    EXPECT(hsa_amd_vmem_get_access(at, &right, on.cpu) == HSA_STATUS_ERROR_INVALID_AGENT);
    EXPECT(hsa_amd_vmem_get_access(at + 3 * MiB, &right, on.gpus[0]) ==
           HSA_STATUS_ERROR_INVALID_ALLOCATION);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("vmem: the host sees a mapping only where the CPU agent was granted") {
  const outcome hidden = in_child({}, [] {
    hsa_system on;
    char* const at = reserve(2 * MiB);
    hsa_amd_vmem_map(at, 2 * MiB, 0, on.create(on.gpus[0], 2 * MiB), 0);
    grant(at, 2 * MiB, on.gpus[0]);
    at[0] = 1;
  });
  CHECK(hidden.signal == SIGSEGV);
  const outcome seen = in_child({"VMM_HOST=always"}, [] {
    hsa_system on;
    char* const at = reserve(2 * MiB);
    hsa_amd_vmem_map(at, 2 * MiB, 0, on.create(on.gpus[0], 2 * MiB), 0);
    grant(at, 2 * MiB, on.gpus[0]);
    at[0] = 1;
  });
  CHECK_MESSAGE(seen.finished, seen.errors);
}

TEST_CASE("vmem: one handle mapped twice is the same memory") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory first(on, on.gpus[0], 2 * MiB);
    char* const second = reserve(2 * MiB);
    EXPECT(hsa_amd_vmem_map(second, 2 * MiB, 0, first.handle, 0) == HSA_STATUS_SUCCESS);
    EXPECT(grant(second, 2 * MiB, on.cpu) == HSA_STATUS_SUCCESS);
    first.at[77] = 5;
    EXPECT(second[77] == 5);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("vmem: a wished address is used where it is free, alignments are kept") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const at = reserve(4 * MiB);
    EXPECT(hsa_amd_vmem_address_free(at, 4 * MiB) == HSA_STATUS_SUCCESS);
    void* again = nullptr;
    EXPECT(hsa_amd_vmem_address_reserve(&again, 4 * MiB, reinterpret_cast<std::uint64_t>(at), 0) ==
           HSA_STATUS_SUCCESS);
    EXPECT(again == at);
    void* other = nullptr;
    EXPECT(hsa_amd_vmem_address_reserve(&other, 4 * MiB, reinterpret_cast<std::uint64_t>(at), 0) ==
           HSA_STATUS_SUCCESS);
    EXPECT(other != at);
    EXPECT(reinterpret_cast<std::uint64_t>(reserve(20480)) % 16384 == 0);
    void* aligned = nullptr;
    EXPECT(hsa_amd_vmem_address_reserve_align(&aligned, 4096, 0, 64 * MiB, 0) ==
           HSA_STATUS_SUCCESS);
    EXPECT(reinterpret_cast<std::uint64_t>(aligned) % (64 * MiB) == 0);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

}  // namespace

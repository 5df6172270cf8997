// SPDX-License-Identifier: MIT
// Faults that hardware would punish are reported, with the facts that the report must name.
#include <doctest/doctest.h>

#include <thread>

#include "rocr_stand_in.h"
#include "support/system.hpp"

namespace {

using namespace test;

TEST_CASE("report: unmap under a queued fill names the fill, its queue and the mapping") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    launcher by(on, on.gpus[0], {fill_kernel()});
    rocr_stand_in_hold(0);
    start_fill(by, on, memory.at + 4096, 8192, 7);
    hsa_amd_vmem_unmap(memory.at, memory.bytes);
  });
  CHECK(got.reported("unmap of mapping"));
  CHECK(got.reported("fill (kernel __amd_rocclr_fillBufferAligned), packet 0 of queue 0 on GPU 0"));
  CHECK(got.reported("of 8192 bytes (from offset 4096 of the mapping on)"));
}

TEST_CASE("report: unmap behind a fill that has finished is no bug") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    launcher by(on, on.gpus[0], {fill_kernel()});
    wait(start_fill(by, on, memory.at, memory.bytes, 7));
    EXPECT(memory.at[memory.bytes - 1] == 7);
    EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("report: unmap of other memory than a queued fill names is no bug") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory filled(on, on.gpus[0], 2 * MiB);
    const mapped_memory other(on, on.gpus[0], 2 * MiB);
    launcher by(on, on.gpus[0], {fill_kernel()});
    rocr_stand_in_hold(0);
    const hsa_signal_t done = start_fill(by, on, filled.at, filled.bytes, 7);
    EXPECT(hsa_amd_vmem_unmap(other.at, other.bytes) == HSA_STATUS_SUCCESS);
    rocr_stand_in_release(0);
    wait(done);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("report: free under a queued copy names the engine and the allocation") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const from = on.allocate(on.gpus[0], MiB);
    char* const to = on.allocate(on.cpu, MiB);
    start_copy(to, on.cpu, from, on.gpus[0], MiB, {make_signal()});
    hsa_amd_memory_pool_free(from);
  });
  CHECK(got.reported("free of allocation"));
  CHECK(got.reported("Queued by thread "));
  CHECK(got.reported(" us ago, behind signals that are 1; its own signal 0x"));
  CHECK(got.reported(" is 1. Before: "));
  CHECK(got.reported("copy, engine 0 of GPU 0"));
  CHECK(got.reported("names it as source"));
}

TEST_CASE("report: free of what a queued kernel of the program has as argument") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const data = on.allocate(on.gpus[0], MiB);
    launcher by(on, on.gpus[0], {program_kernel()});
    rocr_stand_in_hold(0);
    by.launch("a_kernel_of_a_program",
              {{"factor", 3}, {"data", reinterpret_cast<std::uint64_t>(data) + 100}});
    hsa_amd_memory_pool_free(data);
  });
  CHECK(got.reported("kernel a_kernel_of_a_program, packet 0"));
  CHECK(got.reported("names it as argument"));
}

TEST_CASE("report: a copy to memory that was granted to another agent only") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const from = on.allocate(on.gpus[1], 4096);
    const mapped_memory to(on, on.gpus[0], 2 * MiB);
    wait(start_copy(to.at + 512, on.gpus[0], from, on.gpus[1], 4096));
  });
  CHECK(got.reported("the page is mapped but not granted to the agent"));
  CHECK(got.reported("copy, engine 2 of GPU 1"));
  CHECK(got.reported("(offset 512), granted to"));
}

TEST_CASE("report: an access after an unmap says which mapping ended, when and by whom") {
  const outcome got = in_child({"PENDING=unchecked"}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    launcher by(on, on.gpus[0], {fill_kernel()});
    rocr_stand_in_hold(0);
    const hsa_signal_t done = start_fill(by, on, memory.at, 4096, 7);
    EXPECT(hsa_amd_vmem_unmap(memory.at, memory.bytes) == HSA_STATUS_SUCCESS);
    rocr_stand_in_release(0);
    wait(done);
  });
  CHECK(got.reported("nothing is mapped there"));
  CHECK(got.reported("unmapped part of reservation"));
  CHECK(got.reported("Before: mapping"));
  CHECK(got.reported("unmapped by thread"));
}

TEST_CASE("report: memory that is freed and allocated again while queued work names it") {
  const outcome got = in_child({"PENDING=checked"}, [] {
    hsa_system on;
    char* const first = on.allocate(on.gpus[0], MiB);
    launcher by(on, on.gpus[0], {fill_kernel()});
    rocr_stand_in_hold(0);
    start_fill(by, on, first, MiB, 7);
    hsa_amd_memory_pool_free(first);
    EXPECT(on.allocate(on.gpus[0], MiB) == first);
  });
  CHECK(got.reported("free of allocation"));
}

TEST_CASE("report: an access to freed memory says which allocation ended") {
  const outcome got = in_child({"PENDING=unchecked"}, [] {
    hsa_system on;
    char* const freed = on.allocate(on.gpus[0], MiB);
    char* const to = on.allocate(on.cpu, MiB);
    EXPECT(hsa_amd_memory_pool_free(freed) == HSA_STATUS_SUCCESS);
    wait(start_copy(to, on.cpu, freed + 4096, on.gpus[0], 16));
  });
  CHECK(got.reported("no allocation is there"));
  CHECK(got.reported("(offset 4096), freed by thread"));
}

TEST_CASE("report: a write to memory that is granted read-only") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    EXPECT(grant(memory.at, memory.bytes, on.gpus[0], HSA_ACCESS_PERMISSION_RO) ==
           HSA_STATUS_SUCCESS);
    char* const to = on.allocate(on.cpu, 4096);
    wait(start_copy(to, on.cpu, memory.at, on.gpus[0], 4096));
    wait(start_copy(memory.at, on.gpus[0], to, on.cpu, 4096));
  });
  CHECK(got.reported("write to a page granted read-only"));
  CHECK(got.reported("engine 1 of GPU 0"));
}

TEST_CASE("report: an access beyond the end of a mapping says how far it is") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const at = reserve(4 * MiB);
    const auto handle = on.create(on.gpus[0], 2 * MiB);
    EXPECT(hsa_amd_vmem_map(at, 2 * MiB, 0, handle, 0) == HSA_STATUS_SUCCESS);
    EXPECT(grant(at, 2 * MiB, on.gpus[0]) == HSA_STATUS_SUCCESS);
    launcher by(on, on.gpus[0], {fill_kernel()});
    wait(start_fill(by, on, at + MiB, 2 * MiB, 1));
  });
  CHECK(got.reported("the fault is 1048576 bytes into them"));
}

TEST_CASE("report: an engine that uses memory of another GPU without access") {
  const outcome got = in_child({}, [] {
    hsa_system on;
    void* made = nullptr;
    hsa_amd_memory_pool_allocate(on.pool(on.gpus[0]), 4096, 0, &made);
    char* const to = on.allocate(on.cpu, 4096);
    wait(start_copy(to, on.cpu, made, on.gpus[1], 4096));
  });
  CHECK(got.reported("the agent has no access to the allocation"));
}

TEST_CASE("report: host memory that nobody locked, and none once it is locked") {
  static char host[8192];
  const outcome got = in_child({}, [] {
    hsa_system on;
    char* const to = on.allocate(on.gpus[0], 4096);
    void* locked = nullptr;
    EXPECT(hsa_amd_memory_lock_to_pool(host, sizeof host, nullptr, 0, {0}, 0, &locked) ==
           HSA_STATUS_SUCCESS);
    wait(start_copy(to, on.gpus[0], host, on.cpu, 4096));
    EXPECT(hsa_amd_memory_unlock(host) == HSA_STATUS_SUCCESS);
    static char other[4096 * 4];
    wait(start_copy(to, on.gpus[0], other + 4096, on.cpu, 4096));
  });
  CHECK(got.reported("no GPU mapping is there"));
}

TEST_CASE("report: REPORTS=count goes on, leaves the bytes alone and counts") {
  const outcome got = in_child({"REPORTS=count"}, [] {
    hsa_system on;
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    char* const to = on.allocate(on.cpu, 4096);
    to[0] = 9;
    wait(start_copy(to, on.cpu, memory.at, on.gpus[1], 4096));
    EXPECT(rocr_stand_in_reports() == 1);
    EXPECT(to[0] == 9);
  });
  CHECK_MESSAGE(got.finished, got.errors);
  CHECK(got.errors.find("REPORT: memory access fault") != std::string::npos);
}

struct told_fault {
  hsa_status_t answer = HSA_STATUS_SUCCESS;
  int calls = 0;
  hsa_amd_event_t event{};
};

hsa_status_t note_fault(const hsa_amd_event_t* event, void* data) {
  auto& told = *static_cast<told_fault*>(data);
  ++told.calls;
  told.event = *event;
  return told.answer;
}

TEST_CASE("report: with REPORTS=handlers a handler of system events may take a fault") {
  const outcome got = in_child({"REPORTS=handlers"}, [] {
    hsa_system on;
    told_fault refuses{HSA_STATUS_ERROR};
    told_fault takes;
    EXPECT(hsa_amd_register_system_event_handler(note_fault, &refuses) == HSA_STATUS_SUCCESS);
    EXPECT(hsa_amd_register_system_event_handler(note_fault, &takes) == HSA_STATUS_SUCCESS);
    const mapped_memory memory(on, on.gpus[0], 2 * MiB);
    grant(memory.at, memory.bytes, on.gpus[0], HSA_ACCESS_PERMISSION_RO);
    launcher by(on, on.gpus[0], {fill_kernel()});
    wait(start_fill(by, on, memory.at + 4096, 64, 7));
    EXPECT(refuses.calls == 1);
    EXPECT(takes.calls == 1);
    EXPECT(takes.event.event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT);
    EXPECT(takes.event.memory_fault.agent.handle == on.gpus[0].handle);
    EXPECT(takes.event.memory_fault.virtual_address ==
           reinterpret_cast<std::uint64_t>(memory.at + 4096));
    EXPECT(takes.event.memory_fault.fault_reason_mask == HSA_AMD_MEMORY_FAULT_READ_ONLY);
  });
  CHECK_MESSAGE(got.finished, got.errors);
}

TEST_CASE("report: with REPORTS=handlers a fault that no handler takes stops the program") {
  for (const bool has_handler : {false, true}) {
    const outcome got = in_child({"REPORTS=handlers"}, [has_handler] {
      hsa_system on;
      told_fault refuses{HSA_STATUS_ERROR};
      if (has_handler) hsa_amd_register_system_event_handler(note_fault, &refuses);
      char* const nothing_there = reserve(2 * MiB);
      launcher by(on, on.gpus[0], {fill_kernel()});
      wait(start_fill(by, on, nothing_there, 64, 7));
    });
    CHECK(got.reported("nothing is mapped there"));
  }
}

}  // namespace

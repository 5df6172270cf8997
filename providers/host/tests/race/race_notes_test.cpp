// SPDX-License-Identifier: MIT
// Notes of sub-allocators and programs without a stream, and of kernels.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <string>

#include "race_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t size = 4096;

void note_allocate_sync(void* memory, std::size_t bytes) {
  REQUIRE(hipvmm_host_note_allocate_sync(memory, bytes) == hipSuccess);
}
void note_deallocate_sync(void* memory, std::size_t bytes) {
  REQUIRE(hipvmm_host_note_deallocate_sync(memory, bytes) == hipSuccess);
}
void note_use(const void* memory, std::size_t bytes, hipStream_t on, bool writes) {
  REQUIRE(hipvmm_host_note_use(memory, bytes, on, writes ? 1 : 0) == hipSuccess);
}

/// The class of fault that a report begins with.
std::string fault_of(const std::string& report) {
  const std::string before = "hipvmm order checker: ";
  REQUIRE(report.starts_with(before));
  return report.substr(before.size(), report.find(" of ") - before.size());
}

}  // namespace

TIDY_CASE("order checker: bytes noted without a stream are for every stream at once") {
  const allocation arena{size};
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    note_allocate_sync(arena.at(), size);
    write_in(arena.at(), size / 2, first.get());
    write_in(arena.at(size / 2), size / 2, second.get());
  }));
}

TIDY_CASE("order checker: bytes noted without a stream while their free may not have passed") {
  const allocation arena{size};
  const stream work;
  note_allocate(arena.at(), size, work.get());
  note_deallocate(arena.at(), size, work.get());
  CHECK(fault_of(report_of([&] { note_allocate_sync(arena.at(), size); })) ==
        "reuse without order");
}

TIDY_CASE("order checker: a free without a stream leaves earlier work to the sub-allocator") {
  const allocation arena{size};
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    note_allocate(arena.at(), size, first.get());
    write_in(arena.at(), size, first.get());
    note_deallocate_sync(arena.at(), size);
    order(first.get(), second.get());
    note_allocate(arena.at(), size, second.get());
    write_in(arena.at(), size, second.get());
  }));
}

TIDY_CASE("order checker: after a free without a stream who comes next must wait for the work") {
  const allocation arena{size};
  const stream first;
  const stream second;
  note_allocate(arena.at(), size, first.get());
  write_in(arena.at(), size, first.get());
  note_deallocate_sync(arena.at(), size);
  note_allocate(arena.at(), size, second.get());
  CHECK(fault_of(report_of([&] { write_in(arena.at(), size, second.get()); })) == "race");
}

TIDY_CASE("order checker: a use after a free without a stream names the host") {
  const allocation arena{size};
  const stream work;
  note_allocate_sync(arena.at(), size);
  note_deallocate_sync(arena.at(), size);
  const std::string text = report_of([&] { write_in(arena.at(), size, work.get()); });
  CHECK(fault_of(text) == "use after free");
  CHECK(contains(text, "first: hipvmm_host_note_deallocate_sync frees them, on the host"));
  CHECK(hipvmm_host_note_deallocate_sync(arena.at(1), size - 1) == hipErrorInvalidValue);
}

TIDY_CASE("order checker: returned bytes are those of whoever has them below") {
  const allocation arena{size};
  const stream work;
  note_allocate(arena.at(), size, work.get());
  note_allocate(arena.at(), size / 2, work.get());
  note_deallocate(arena.at(), size / 2, work.get());
  CHECK(is_clean([&] {
    REQUIRE(hipvmm_host_note_return(arena.at(), size) == hipSuccess);
    write_in(arena.at(), size, work.get());
    note_deallocate(arena.at(), size, work.get());
  }));
}

TIDY_CASE("order checker: noted uses race as those of HIP's calls do") {
  const allocation memory{size};
  const stream first;
  const stream second;
  const auto planted = [&](bool first_writes, bool second_writes) {
    note_use(memory.at(), size, first.get(), first_writes);
    note_use(memory.at(), size, second.get(), second_writes);
  };
  CHECK(is_clean([&] { planted(false, false); }));
  CHECK(fault_of(report_of([&] { planted(true, false); })) == "race");
  CHECK(fault_of(report_of([&] { planted(false, true); })) == "race");
  CHECK(is_clean([&] {
    note_use(memory.at(), size, first.get(), true);
    order(first.get(), second.get());
    note_use(memory.at(), size, second.get(), true);
  }));
  const std::string text = report_of([&] {
    note_use(memory.at(), 4, first.get(), true);
    write_in(memory.at(), size, second.get());
  });
  CHECK(contains(text, "first: hipvmm_host_note_use writes them, in"));
}

TIDY_CASE("order checker: suspended, a noted use is neither judged nor remembered") {
  const allocation memory{size};
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    hipvmm_host_suspend_order_check();
    note_use(memory.at(), size, first.get(), true);
    hipvmm_host_resume_order_check();
    note_use(memory.at(), size, second.get(), true);
  }));
}

TIDY_CASE("order checker: a use is noted of memory that the stream's device may use so") {
  const allocation memory{size};
  const mapped readable{granule, {0}};
  readable.give(0, hipMemAccessFlagsProtRead);
  const stream work;
  int on_stack = 0;
  const auto use = [&](const void* pointer, std::size_t bytes, hipStream_t on, int writes) {
    return static_cast<hipError_t>(hipvmm_host_note_use(pointer, bytes, on, writes));
  };
  check_refusals({
      {"memory of the host", use(&on_stack, sizeof(on_stack), work.get(), 0)},
      {"no memory", use(nullptr, 1, work.get(), 0)},
      {"beyond the allocation", use(memory.at(), 1024 * granule, work.get(), 0)},
      {"no range of addresses", use(memory.at(), SIZE_MAX, work.get(), 0)},
      {"written without the right", use(readable.at(), 1, work.get(), 1)},
      {"no such stream", use(memory.at(), 1, as_handle<hipStream_t>(16), 0), hipErrorInvalidHandle},
      {"no bytes", use(&on_stack, 0, work.get(), 1), hipSuccess},
      {"read", use(readable.at(), 1, work.get(), 0), hipSuccess},
  });
  finish_streams();
  REQUIRE(hipStreamBeginCapture(work.get(), hipStreamCaptureModeRelaxed) == hipSuccess);
  CHECK(use(memory.at(), 1, work.get(), 0) == hipErrorStreamCaptureUnsupported);
  hipGraph_t graph = nullptr;
  REQUIRE(hipStreamEndCapture(work.get(), &graph) == hipSuccess);
  CHECK(hipGraphDestroy(graph) == hipSuccess);
}

TIDY_CASE("order checker: it says whether it is on") { CHECK(hipvmm_host_checks_order() == 1); }

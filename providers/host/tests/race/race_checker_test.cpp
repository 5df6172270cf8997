// SPDX-License-Identifier: MIT
// Planted faults, with HIPVMM_HOST_CHECK=1: each brings one report. None depends on the order of
// execution, so no stream is held.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <future>
#include <string>

#include "race_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::size_t size = 4096;

bool is_of(const std::string& report, const std::string& fault) {
  return report.starts_with("hipvmm order checker: " + fault + " of ");
}

}  // namespace

TIDY_CASE("order checker: work that does not come after the allocation is told") {
  const pool source;
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(size, first.get());
  CHECK(is_of(report_of([&] { write_in(block, size, second.get()); }), "use before allocation"));
  free_in(block, first.get());
}

TIDY_CASE("order checker: a free that does not come after the allocation is told") {
  const pool source;
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(size, first.get());
  CHECK(is_of(report_of([&] { free_in(block, second.get()); }), "use before allocation"));
}

TIDY_CASE("order checker: a free that does not come after the work is told") {
  const pool source;
  const stream first;
  const stream second;
  std::byte* const block = source.allocate(size, first.get());
  order(first.get(), second.get());
  write_in(block, size, second.get());
  CHECK(is_of(report_of([&] { free_in(block, first.get()); }), "use after free"));
}

TIDY_CASE("order checker: noted bytes are told like those of a pool when used too early") {
  const allocation arena{4 * size};
  const stream first;
  const stream second;
  note_allocate(arena.at(size), size, first.get());
  CHECK(is_of(report_of([&] { write_in(arena.at(size), size, second.get()); }),
              "use before allocation"));
}

TIDY_CASE("order checker: noted bytes are told when freed before their work") {
  const allocation arena{4 * size};
  const stream first;
  const stream second;
  note_allocate(arena.at(size), size, first.get());
  order(first.get(), second.get());
  write_in(arena.at(size), size, second.get());
  CHECK(is_of(report_of([&] { note_deallocate(arena.at(size), size, first.get()); }),
              "use after free"));
}

TIDY_CASE("order checker: noted bytes are told when used after they came back") {
  const allocation arena{4 * size};
  const stream work;
  note_allocate(arena.at(), size, work.get());
  note_deallocate(arena.at(), size, work.get());
  CHECK(is_of(report_of([&] { write_in(arena.at(size - 1), 2, work.get()); }), "use after free"));
}

TIDY_CASE("order checker: noted bytes that come back twice are told") {
  const allocation arena{size};
  const stream work;
  note_allocate(arena.at(), size, work.get());
  note_deallocate(arena.at(), size, work.get());
  CHECK(is_of(report_of([&] { note_deallocate(arena.at(), size, work.get()); }), "use after free"));
}

TIDY_CASE("order checker: only bytes that were allocated can come back") {
  const allocation arena{size};
  const stream work;
  note_allocate(arena.at(), size, work.get());
  const auto deallocate = [&](std::size_t offset, std::size_t bytes, hipStream_t on) {
    return static_cast<hipError_t>(hipvmm_host_note_deallocate(arena.at(offset), bytes, on));
  };
  check_refusals({
      {"never noted", deallocate(1, size - 1, work.get())},
      {"another size", deallocate(0, size - 1, work.get())},
      {"no range of addresses", deallocate(0, SIZE_MAX, work.get())},
      {"no such stream", deallocate(0, size, as_handle<hipStream_t>(16)), hipErrorInvalidHandle},
      {"no bytes", deallocate(1, 0, work.get()), hipSuccess},
      {"the very bytes", deallocate(0, size, work.get()), hipSuccess},
  });
}

TIDY_CASE("order checker: bytes handed to another stream without an edge are told") {
  const allocation arena{4 * size};
  const stream first;
  const stream second;
  note_allocate(arena.at(), 2 * size, first.get());
  write_in(arena.at(), 2 * size, first.get());
  note_deallocate(arena.at(), 2 * size, first.get());
  CHECK(is_of(report_of([&] {
                note_allocate(arena.at(size), 2 * size, second.get());
                write_in(arena.at(size), 2 * size, second.get());
              }),
              "reuse without order"));
}

TIDY_CASE("order checker: bytes allocated twice are told where they are not nested") {
  const allocation arena{4 * size};
  const stream work;
  note_allocate(arena.at(), 2 * size, work.get());
  CHECK(is_of(report_of([&] { note_allocate(arena.at(size), 2 * size, work.get()); }),
              "reuse without order"));
}

TIDY_CASE("order checker: a sub-allocator that stands on another is judged by both") {
  const allocation arena{4 * size};
  const stream first;
  const stream second;
  note_allocate(arena.at(), 4 * size, first.get());
  CHECK(is_of(report_of([&] { note_allocate(arena.at(size), size, second.get()); }),
              "use before allocation"));
}

TIDY_CASE("order checker: memory unmapped while work in flight uses it is told") {
  mapped mapping{granule};
  const stream work;
  write_in(mapping.at(), size, work.get());
  CHECK(is_of(report_of([&] { mapping.unmap(); }), "memory taken away in use"));
}

TIDY_CASE("order checker: a right taken from the device of work in flight is told") {
  const pinned host{size};
  const mapped mapping{granule, {0, 1}};
  const stream work;
  REQUIRE(hipMemcpyAsync(host.at(), mapping.at(), size, hipMemcpyDefault, work.get()) ==
          hipSuccess);
  REQUIRE(is_clean([&] {
    mapping.give(1, hipMemAccessFlagsProtNone);
    mapping.give(0, hipMemAccessFlagsProtRead);
  }));
  REQUIRE(hipMemcpyAsync(host.at(), mapping.at(), size, hipMemcpyDefault, work.get()) ==
          hipSuccess);
  CHECK(is_of(report_of([&] { mapping.give(0, hipMemAccessFlagsProtNone); }),
              "memory taken away in use"));
}

TIDY_CASE("order checker: a right to a pool taken from the device of work in flight is told") {
  const pool source;
  const stream of_1{hipStreamNonBlocking, 1};
  const auto give = [&](hipMemAccessFlags flags) {
    const hipMemAccessDesc wanted = access_of(1, flags);
    REQUIRE(hipMemPoolSetAccess(source.get(), &wanted, 1) == hipSuccess);
  };
  give(hipMemAccessFlagsProtReadWrite);
  std::byte* const block = source.allocate(size, of_1.get());
  write_in(block, size, of_1.get());
  CHECK(is_of(report_of([&] { give(hipMemAccessFlagsProtRead); }), "memory taken away in use"));
  free_in(block, of_1.get());
}

TIDY_CASE("order checker: memory freed while another device uses it is told") {
  const allocation target{size};
  const stream of_1{hipStreamNonBlocking, 1};
  void* memory = nullptr;
  REQUIRE(hipMalloc(&memory, size) == hipSuccess);
  REQUIRE(hipMemcpyAsync(target.at(), memory, size, hipMemcpyDefault, of_1.get()) == hipSuccess);
  CHECK(is_of(report_of([&] { REQUIRE(hipFree(memory) == hipSuccess); }),
              "memory taken away in use"));
}

TEST_CASE("order checker: two streams that touch the same bytes race when one writes") {
  struct row {
    const char* name;
    hipError_t (*submit)(std::byte* memory, std::byte* other, hipStream_t on);
    bool races_with_a_write;
    bool races_with_a_read;
  };
  const row rows[]{
      {"fill",
       [](std::byte* memory, std::byte*, hipStream_t on) {
         return hipMemsetAsync(memory, 2, size, on);
       },
       true, true},
      {"copy to it",
       [](std::byte* memory, std::byte* other, hipStream_t on) {
         return hipMemcpyAsync(memory, other, size, hipMemcpyDefault, on);
       },
       true, true},
      {"copy from it",
       [](std::byte* memory, std::byte* other, hipStream_t on) {
         return hipMemcpyAsync(other, memory, size, hipMemcpyDefault, on);
       },
       true, false},
      {"peer copy from it",
       [](std::byte* memory, std::byte* other, hipStream_t on) {
         return hipMemcpyPeerAsync(other, 0, memory, 0, size, on);
       },
       true, false},
  };
  for (const row& each : rows) {
    CAPTURE(each.name);
    const nothing_left check;
    const allocation memory{2 * size};
    const allocation other{size};
    const allocation sink{2 * size};
    const stream first;
    const stream second;
    write_in(memory.at(), 2 * size, first.get());
    CHECK(each.races_with_a_write == !is_clean([&] {
            REQUIRE(each.submit(memory.at(), other.at(), second.get()) == hipSuccess);
          }));
    REQUIRE(hipMemcpyAsync(sink.at(), memory.at(), 2 * size, hipMemcpyDefault, first.get()) ==
            hipSuccess);
    CHECK(each.races_with_a_read == !is_clean([&] {
            REQUIRE(each.submit(memory.at(), other.at(), second.get()) == hipSuccess);
          }));
  }
}

TIDY_CASE("order checker: the byte ranges count, not the allocations") {
  const allocation memory{2 * size};
  const stream first;
  const stream second;
  write_in(memory.at(), size, first.get());
  CHECK(is_clean([&] { write_in(memory.at(size), size, second.get()); }));
  write_in(memory.at(), size, first.get());
  const std::string report = report_of([&] { write_in(memory.at(size - 1), 2, second.get()); });
  INFO(report);
  CHECK(contains(report, "race of 1 byte at " + hexadecimal(memory.at(size - 1)) + "\n"));
}

TIDY_CASE("order checker: pinned memory that two streams use races too") {
  const pinned staging{size};
  const allocation memory{size};
  const stream first;
  const stream second;
  REQUIRE(hipMemcpyAsync(memory.at(), staging.at(), size, hipMemcpyDefault, first.get()) ==
          hipSuccess);
  CHECK(is_of(report_of([&] {
                REQUIRE(hipMemcpyAsync(staging.at(), staging.at(), 1, hipMemcpyDefault,
                                       second.get()) == hipSuccess);
              }),
              "race"));
}

TIDY_CASE("order checker: each pair of call sites is told once for each class") {
  const allocation memory{size};
  const stream first;
  const stream second;
  const auto race = [&] {
    for (int i = 0; i < 3; ++i) {
      write_in(memory.at(), size, first.get());
      write_in(memory.at(), size, second.get());
      finish_streams();
    }
  };
  CHECK(is_of(report_of(race), "race"));
}

TIDY_CASE("order checker: a report names functions, streams, bytes, memory and call sites") {
  const allocation memory{size};
  const stream first;
  const stream second{hipStreamDefault};
  const std::string report = report_of([&] {
    write_in(memory.at(), size, first.get());
    REQUIRE(hipMemcpyAsync(memory.at(64), memory.at(1024), 512, hipMemcpyDefault, second.get()) ==
            hipSuccess);
  });
  INFO(report);
  CHECK(contains(report,
                 "hipvmm order checker: race of 512 bytes at " + hexadecimal(memory.at(1024))));
  CHECK(contains(report, "\n  bytes: " + hexadecimal(memory.at(1024)) + " to " +
                             hexadecimal(memory.at(1536)) +
                             ", at offset 1024 of 4096 bytes of hipMalloc memory of device 0\n"));
  CHECK(contains(report, "\n  first: hipMemsetAsync writes them, in non-blocking stream " +
                             hexadecimal(first.get()) +
                             " of device 0\n      #0 hipvmm::test::write_in("));
  CHECK(contains(report, "\n  second: hipMemcpyAsync reads them, in blocking stream " +
                             hexadecimal(second.get()) + " of device 0\n      #0 "));
  CHECK(contains(report, " main"));
  CHECK_FALSE(contains(report, "host_provider::"));
}

TIDY_CASE("order checker: a report names null and per-thread streams, and who gave the bytes") {
  const pool source;
  const stream own;
  std::byte* const block = source.allocate(size, own.get());
  REQUIRE(own.wait() == hipSuccess);
  const std::string report = report_of([&] {
    REQUIRE(hipMemcpyPeerAsync(block, 0, block, 0, 16, nullptr) == hipSuccess);
    REQUIRE(hipSetDevice(1) == hipSuccess);
    REQUIRE(hipMemcpyPeerAsync(block, 0, block, 0, 16, hipStreamPerThread) == hipSuccess);
  });
  INFO(report);
  CHECK(contains(report, "hipMemcpyPeerAsync writes them, in the null stream of device 0\n"));
  CHECK(contains(report, "in a per-thread stream of device 1\n"));
  CHECK(contains(report,
                 "offset 0 of 4096 bytes from hipMallocFromPoolAsync, at offset 0 of 4096 "
                 "bytes of memory of a pool of device 0\n"));
  CHECK(contains(report,
                 "\n  before: hipMallocFromPoolAsync allocates them, in non-blocking stream " +
                     hexadecimal(own.get()) + " of device 0\n      #0 "));
  free_in(block, nullptr);
}

TIDY_CASE("order checker: work that was refused is not remembered") {
  const allocation memory{size};
  const stream first;
  const stream second;
  struct refused {
    const void* from;
    hipStream_t on;
    std::promise<hipError_t> result{};
  } copy{memory.at(), first.get()};
  const auto wait_in_host_function = [](void* self) {
    auto& each = *static_cast<refused*>(self);
    std::byte to{};
    each.result.set_value(hipMemcpyAsync(&to, each.from, 1, hipMemcpyDefault, each.on));
  };
  CHECK(is_clean([&] {
    REQUIRE(hipLaunchHostFunc(first.get(), wait_in_host_function, &copy) == hipSuccess);
    CHECK(copy.result.get_future().get() == hipErrorIllegalState);
    write_in(memory.at(), size, second.get());
  }));
}

TIDY_CASE("order checker: nothing is told while suspended, and the thread's uses are forgotten") {
  const allocation memory{size};
  const stream first;
  const stream second;
  CHECK(is_clean([&] {
    write_in(memory.at(), size, first.get());
    {
      const unordered_on_purpose outer;
      const unordered_on_purpose inner;
      write_in(memory.at(), size, second.get());
    }
    order(first.get(), second.get());
    write_in(memory.at(), size, first.get());
  }));
}

HIPVMM_CHILD("ends with a report") {
  void* memory = nullptr;
  hipStream_t streams[2];
  REQUIRE(hipMalloc(&memory, size) == hipSuccess);
  for (hipStream_t& each : streams) {
    REQUIRE(hipStreamCreateWithFlags(&each, hipStreamNonBlocking) == hipSuccess);
    REQUIRE(hipMemsetAsync(memory, 1, size, each) == hipSuccess);
  }
}

TEST_CASE("order checker: a process with a report ends with exit code 66 and says so") {
  const child_result result = run_child("ends with a report");
  INFO(result.output);
  CHECK(result.status == 66);
  CHECK(contains(result.output, "hipvmm order checker: race of 4096 bytes at 0x"));
  CHECK(contains(result.output,
                 "hipvmm order checker: 1 report; the program ends with exit code 66.\n"));
}

TEST_CASE("order checker: a process that also leaks is told both") {
  const child_result result = run_child("ends with a report", {"HIPVMM_HOST_LEAKS=1"});
  INFO(result.output);
  CHECK(result.status == 66);
  CHECK(contains(result.output, "1 of hipMalloc: 0x"));
  CHECK(contains(result.output, "1 report; the program ends with exit code 66.\n"));
}

HIPVMM_CHILD("is told nothing") {
  int byte = 0;
  CHECK(hipvmm_host_note_allocate(&byte, 1, as_handle<hipStream_t>(16)) == hipSuccess);
  CHECK(hipvmm_host_note_deallocate(&byte, 1, as_handle<hipStream_t>(16)) == hipSuccess);
  CHECK(hipvmm_host_order_reports() == 0);
  CHECK(last_report().empty());
}

TEST_CASE("order checker: without HIPVMM_HOST_CHECK=1 nothing is told, nor listened to") {
  for (const char* name : {"ends with a report", "is told nothing"}) {
    const child_result result = run_child(name, {"HIPVMM_HOST_CHECK=0"});
    INFO(result.output);
    CHECK(passed(result));
    CHECK_FALSE(contains(result.output, "order checker:"));
  }
}

TIDY_CASE("order checker: of rows each is used, and what is between them is not") {
  const allocation memory{4 * size};
  const stream first;
  const stream second;
  note_allocate(memory.at(), 4 * size, first.get());
  order(first.get(), second.get());
  CHECK(is_clean([&] {
    REQUIRE(hipMemset2DAsync(memory.at(), size, 1, 64, 4, first.get()) == hipSuccess);
    REQUIRE(hipMemset2DAsync(memory.at(64), size, 2, 64, 4, second.get()) == hipSuccess);
  }));
  order(second.get(), first.get());
  CHECK(is_of(report_of([&] {
                REQUIRE(hipMemset2DAsync(memory.at(), size, 1, 64, 4, first.get()) == hipSuccess);
                write_in(memory.at(3 * size + 63), 1, second.get());
              }),
              "race"));
  order(second.get(), first.get());
  note_deallocate(memory.at(), 4 * size, first.get());
}

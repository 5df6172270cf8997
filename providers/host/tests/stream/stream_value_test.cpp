// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "providers/host/tests/graph/capture_fixtures.hpp"

using namespace hipvmm::test;

namespace {

constexpr std::uint32_t every_bit = 0xFFFFFFFF;
constexpr std::uint64_t every_bit_of_64 = ~std::uint64_t{0};

// Eight bytes for signals, zero at first.
class signal_memory {
 public:
  signal_memory() {
    REQUIRE(hipExtMallocWithFlags(&start_, 8, hipMallocSignalMemory) == hipSuccess);
  }
  signal_memory& operator=(signal_memory&&) = delete;
  ~signal_memory() { CHECK(hipFree(start_) == hipSuccess); }

  [[nodiscard]] void* get() const { return start_; }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t number = 0;
    std::memcpy(&number, start_, sizeof(number));
    return number;
  }

 private:
  void* start_ = nullptr;
};

}  // namespace

TIDY_CASE("stream value: arguments outside the rules are refused") {
  const signal_memory number;
  const stream work;
  std::uint64_t own = 0;
  std::byte* const start = static_cast<std::byte*>(number.get());
  const auto forged = as_handle<hipStream_t>(0x1230);
  check_refusals({
      {"wait for null", hipStreamWaitValue32(work.get(), nullptr, 0, 0, every_bit)},
      {"write to null", hipStreamWriteValue64(work.get(), nullptr, 0, 0)},
      {"unknown condition", hipStreamWaitValue32(work.get(), start, 0, 4, every_bit)},
      {"flags of a write", hipStreamWriteValue32(work.get(), start, 0, 1)},
      {"memory of the program", hipStreamWaitValue64(work.get(), &own, 0, 0, every_bit_of_64)},
      {"write to it", hipStreamWriteValue64(work.get(), &own, 0, 0)},
      {"not aligned to 4", hipStreamWriteValue32(work.get(), start + 2, 0, 0)},
      {"not aligned to 8", hipStreamWaitValue64(work.get(), start + 4, 0, 0, every_bit_of_64)},
      {"past the end", hipStreamWriteValue64(work.get(), start + 8, 0, 0)},
      {"forged stream", hipStreamWriteValue32(forged, start, 0, 0), hipErrorInvalidHandle},
  });
  CHECK(work.wait() == hipSuccess);
}

TIDY_CASE("stream value: a write has its width, in memory of every kind") {
  const signal_memory number;
  const pinned host{8};
  const allocation device{8};
  const stream work;
  for (void* const start :
       {number.get(), static_cast<void*>(host.at()), static_cast<void*>(device.at())}) {
    CHECK(hipStreamWriteValue64(work.get(), start, every_bit_of_64, 0) == hipSuccess);
    CHECK(hipStreamWriteValue32(work.get(), start, 7, 0) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    std::uint64_t found = 0;
    CHECK(hipMemcpy(&found, start, 8, hipMemcpyDefault) == hipSuccess);
    CHECK(found == 0xFFFFFFFF00000007);
  }
}

TIDY_CASE("stream value: a wait holds its stream alone until the condition is met") {
  const signal_memory number;
  struct row {
    const char* what;
    unsigned flags;
    std::uint64_t value;
    std::uint64_t mask;
    std::uint64_t before;
    std::uint64_t after;
  };
  for (const row& each :
       {row{"at least", hipStreamWaitValueGte, 5, every_bit_of_64, 4, 6},
        row{"at least, masked", hipStreamWaitValueGte, 5, 0xF, 0x74, 0x05},
        row{"equal", hipStreamWaitValueEq, 5, every_bit_of_64, 6, 5},
        row{"equal, masked", hipStreamWaitValueEq, 5, 0xF, 6, 0x75},
        row{"any bit", hipStreamWaitValueAnd, 6, every_bit_of_64, 9, 2},
        row{"any bit, masked", hipStreamWaitValueAnd, 6, 4, 2, 4},
        row{"not all bits", hipStreamWaitValueNor, 1, every_bit_of_64, every_bit_of_64, 1},
        row{"not all bits, masked", hipStreamWaitValueNor, 1, 3, 2, 1}}) {
    for (const bool is_wide : {false, true}) {
      CAPTURE(each.what);
      CAPTURE(is_wide);
      const stream waiting;
      const stream writing;
      CHECK(hipStreamWriteValue64(writing.get(), number.get(), each.before, 0) == hipSuccess);
      CHECK(writing.wait() == hipSuccess);
      CHECK((is_wide ? hipStreamWaitValue64(waiting.get(), number.get(), each.value, each.flags,
                                            each.mask)
                     : hipStreamWaitValue32(waiting.get(), number.get(),
                                            static_cast<std::uint32_t>(each.value), each.flags,
                                            static_cast<std::uint32_t>(each.mask))) == hipSuccess);
      bool ran = false;
      CHECK(hipLaunchHostFunc(waiting.get(), set_flag, &ran) == hipSuccess);
      CHECK(hipStreamQuery(waiting.get()) == hipErrorNotReady);
      CHECK_FALSE(ran);
      CHECK(hipStreamWriteValue64(writing.get(), number.get(), each.after, 0) == hipSuccess);
      CHECK(waiting.wait() == hipSuccess);
      CHECK(ran);
    }
  }
}

TIDY_CASE("stream value: the host's write lets a stream go on") {
  const signal_memory number;
  const stream work;
  CHECK(hipStreamWaitValue64(work.get(), number.get(), 3, hipStreamWaitValueEq, every_bit_of_64) ==
        hipSuccess);
  CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
  *static_cast<volatile std::uint64_t*>(number.get()) = 3;
  CHECK(work.wait() == hipSuccess);
}

TIDY_CASE("stream value: held streams write nothing") {
  const signal_memory number;
  const stream work;
  {
    const held_streams held;
    CHECK(hipStreamWriteValue32(work.get(), number.get(), 9, 0) == hipSuccess);
    CHECK(number.value() == 0);
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(number.value() == 9);
}

WORK_CASE("stream value: memory that ends ends the wait with an error") {
  const mapped memory{granule};
  CHECK(hipStreamWaitValue32(work.get(), memory.at(), 1, 0, every_bit) == hipSuccess);
  memory.give(0, hipMemAccessFlagsProtNone);
  CHECK(work.wait() == hipErrorIllegalAddress);
}

TIDY_CASE("stream value: a captured stream refuses it, which costs the capture") {
  const signal_memory number;
  const stream work;
  begin_capture(work.get());
  CHECK(hipStreamWriteValue32(work.get(), number.get(), 9, 0) == hipErrorStreamCaptureUnsupported);
  end_capture_with(hipErrorStreamCaptureInvalidated, work.get());
  CHECK(number.value() == 0);
}

TIDY_CASE("hipExtMallocWithFlags: each kind of memory is told and freed") {
  for (const unsigned flags : {0U, 1U, 3U, 4U}) {
    CAPTURE(flags);
    void* start = nullptr;
    CHECK(hipExtMallocWithFlags(&start, 4096, flags) == hipSuccess);
    CHECK(hipvmm_host_device_bytes(0) == 4096);
    hipPointerAttribute_t told{};
    CHECK(hipPointerGetAttributes(&told, start) == hipSuccess);
    CHECK(told.allocationFlags == flags);
    CHECK(told.hostPointer == nullptr);
    CHECK(hipFree(start) == hipSuccess);
  }
  void* start = &start;
  CHECK(hipExtMallocWithFlags(&start, 0, hipDeviceMallocFinegrained) == hipSuccess);
  CHECK(start == nullptr);
  CHECK(hipExtMallocWithFlags(&start, 8, hipMallocSignalMemory) == hipSuccess);
  hipPointerAttribute_t told{};
  CHECK(hipPointerGetAttributes(&told, start) == hipSuccess);
  CHECK(told.hostPointer == start);
  CHECK(told.allocationFlags == hipMallocSignalMemory);
  CHECK(hipvmm_host_device_bytes(0) == 0);
  CHECK(hipFree(start) == hipSuccess);
}

TIDY_CASE("hipExtMallocWithFlags: arguments outside the rules are refused") {
  void* start = nullptr;
  check_refusals({
      {"null", hipExtMallocWithFlags(nullptr, 8, 0)},
      {"unknown flags", hipExtMallocWithFlags(&start, 8, 5)},
      {"signals of 16 bytes", hipExtMallocWithFlags(&start, 16, hipMallocSignalMemory)},
      {"signals of no bytes", hipExtMallocWithFlags(&start, 0, hipMallocSignalMemory)},
      {"more than there is", hipExtMallocWithFlags(&start, device_budget + 1, 1),
       hipErrorOutOfMemory},
  });
  CHECK(start == nullptr);
}

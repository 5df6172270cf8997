// SPDX-License-Identifier: MIT
// Memory that changes while copies run.
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <thread>

#include "providers/host/tests/fixtures.hpp"

using namespace hipvmm::test;

namespace {

// A page that stops its readers until it is opened, so that a test can check a copy while it runs.
// The signal handler makes only calls that are safe in one: read, write and mprotect.
class frozen_page {
 public:
  frozen_page() {
    bytes_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const mapped = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    page_ = static_cast<std::byte*>(mapped);
    REQUIRE(::pipe(arrived_.data()) == 0);
    REQUIRE(::pipe(opened_.data()) == 0);
    current = this;
    struct sigaction action {};
    action.sa_handler = [](int) { current->wait_in_handler(); };
    action.sa_flags = SA_NODEFER;
    REQUIRE(::sigaction(SIGSEGV, &action, &before_) == 0);
  }
  frozen_page& operator=(frozen_page&&) = delete;
  ~frozen_page() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    for (const auto& ends : {arrived_, opened_}) {
      for (const int end : ends) ::close(end);
    }
    ::munmap(page_, bytes_);
  }

  [[nodiscard]] std::byte* get() const { return page_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void await_reader() { REQUIRE(::read(arrived_[0], &token_, 1) == 1); }
  void open() { REQUIRE(::write(opened_[1], "", 1) == 1); }

 private:
  void wait_in_handler() {
    char token = 0;
    if (::write(arrived_[1], "", 1) != 1 || ::read(opened_[0], &token, 1) != 1) ::_exit(98);
    ::mprotect(page_, bytes_, PROT_READ | PROT_WRITE);
  }

  static frozen_page* current;
  std::byte* page_ = nullptr;
  std::size_t bytes_ = 0;
  char token_ = 0;
  std::array<int, 2> arrived_{};
  std::array<int, 2> opened_{};
  struct sigaction before_ {};
};

frozen_page* frozen_page::current = nullptr;

void map_and_unmap_something() {
  const mapped other{granule};
  REQUIRE(fill_and_wait(other.at(), 1, granule) == hipSuccess);
}

// Starts `change` in a thread of its own while a copy into `target` is under way, lets the copy go
// on once the change has begun, and gives the code of the copy.
template <class Change>
hipError_t copy_during(std::byte* target, const char* changing_function, Change change) {
  frozen_page frozen;
  hipError_t copied = hipErrorUnknown;
  std::thread copier{
      [&] { copied = hipMemcpy(target, frozen.get(), frozen.bytes(), hipMemcpyHostToDevice); }};
  frozen.await_reader();
  const call_counter calls{changing_function};
  std::thread changer{[&change] {
    const unordered_on_purpose changes_memory_under_a_copy;
    change();
  }};
  while (calls.count() == 0) std::this_thread::yield();
  frozen.open();
  copier.join();
  changer.join();
  return copied;
}

}  // namespace

TIDY_CASE("address map: memory is mapped, opened and unmapped while a copy is under way") {
  const mapped target{granule};
  frozen_page frozen;
  hipError_t copied = hipErrorUnknown;
  std::thread copier{[&] {
    copied = hipMemcpy(target.at(), frozen.get(), frozen.bytes(), hipMemcpyHostToDevice);
  }};
  frozen.await_reader();
  REQUIRE(hipSetDevice(1) == hipSuccess);  // the copy keeps the null stream of device 0
  {
    const mapped other{granule, {1}, 1};
    CHECK(fill_and_wait(other.at(), 1, granule) == hipSuccess);
  }
  target.give(1, hipMemAccessFlagsProtReadWrite);
  CHECK(access_at(target.at(), 1) == hipMemAccessFlagsProtReadWrite);
  CHECK(copied == hipErrorUnknown);
  frozen.open();
  copier.join();
  CHECK(copied == hipSuccess);
}

TIDY_CASE("address map: unmapping waits for the bytes that a copy is touching") {
  mapped target{granule};
  CHECK(copy_during(target.at(), "hipMemUnmap", [&] { target.unmap(); }) == hipSuccess);
}

TIDY_CASE("address map: taking a right away waits for the bytes that a copy is touching") {
  const mapped target{granule};
  CHECK(copy_during(target.at(), "hipMemSetAccess",
                    [&] { target.give(0, hipMemAccessFlagsProtNone); }) == hipSuccess);
  CHECK(access_at(target.at(), 0) == hipMemAccessFlagsProtNone);
}

TIDY_CASE("address map: copies beside unmapping either succeed or are told the address is gone") {
  const reservation addresses{granule};
  const pinned host{granule};
  const hipMemAccessDesc wanted = access_of(0);
  std::atomic<bool> stop{false};
  std::atomic<int> succeeded{0};
  std::thread copier{[&] {
    const unordered_on_purpose meets_unmapping_at_any_time;
    hipStream_t work = nullptr;
    REQUIRE(hipStreamCreateWithFlags(&work, hipStreamNonBlocking) == hipSuccess);
    while (!stop) {
      const hipError_t submitted =
          hipMemcpyAsync(addresses.at(), host.at(), granule, hipMemcpyHostToDevice, work);
      if (submitted == hipErrorInvalidValue) continue;
      REQUIRE(submitted == hipSuccess);
      const hipError_t done = hipStreamSynchronize(work);
      REQUIRE((done == hipSuccess || done == hipErrorIllegalAddress));
      if (done == hipSuccess) ++succeeded;
    }
    REQUIRE(hipStreamDestroy(work) == hipSuccess);
  }};
  for (int round = 0; round < 200 || succeeded == 0; ++round) {
    {
      const memory chunk{granule};
      REQUIRE(hipMemMap(addresses.at(), granule, 0, chunk.get(), 0) == hipSuccess);
    }
    REQUIRE(hipMemSetAccess(addresses.at(), granule, &wanted, 1) == hipSuccess);
    std::this_thread::yield();
    REQUIRE(hipMemUnmap(addresses.at(), granule) == hipSuccess);
  }
  stop = true;
  copier.join();
}

TIDY_CASE("address map: threads reserve, map and free side by side") {
  std::array<std::thread, 4> threads;
  for (std::thread& each : threads) {
    each = std::thread{[] {
      for (int i = 0; i < 50; ++i) map_and_unmap_something();
    }};
  }
  for (std::thread& each : threads) each.join();
}

HIPVMM_TEST_CASE_IN("address map: no more addresses are reserved than the environment allows",
                    {"HIPVMM_HOST_ADDRESS_SPACE=16MiB"}) {
  const nothing_left check;
  const reservation most{6 * granule};
  void* start = nullptr;
  CHECK(hipMemAddressReserve(&start, 3 * granule, 0, nullptr, 0) == hipErrorOutOfMemory);
  const reservation rest{2 * granule};
}

TIDY_CASE("address map: freed addresses count as free again") {
  constexpr std::size_t much = std::size_t{256} << 30U;
  for (int i = 0; i < 600; ++i) {  // more than 128 TiB in all
    const reservation addresses{much};
  }
}

HIPVMM_TEST_CASE_IN("address map: a wish outside the address space counts as taken",
                    {"HIPVMM_HOST_GRANULARITY=4KiB"}) {
  const nothing_left check;
  constexpr std::size_t page_bytes = 4096;
  std::ifstream lowest_file{"/proc/sys/vm/mmap_min_addr"};
  std::uintptr_t lowest = 0;
  lowest_file >> lowest;
  REQUIRE(lowest != 0);
  constexpr std::uintptr_t end = std::uintptr_t{1} << 47U;
  for (const std::uintptr_t wish :
       {std::uintptr_t{page_bytes}, end - page_bytes, end, UINTPTR_MAX - page_bytes + 1}) {
    CAPTURE(wish);
    void* start = nullptr;
    REQUIRE(hipMemAddressReserve(&start, 2 * page_bytes, 0, as_handle<void*>(wish), 0) ==
            hipSuccess);
    CHECK(start != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(start) >= lowest);
    CHECK(reinterpret_cast<std::uintptr_t>(start) < end);
    CHECK(hipMemAddressFree(start, 2 * page_bytes) == hipSuccess);
  }
}

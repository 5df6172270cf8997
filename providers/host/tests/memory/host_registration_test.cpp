// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "core/hip_compat.hpp"
#include "managed_fixture.hpp"

using namespace hipvmm::test;

namespace {

// Memory of the operating system's, which HIP knows nothing of.
class pages {
 public:
  explicit pages(std::size_t bytes, int protection = PROT_READ | PROT_WRITE)
      : start_{mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)},
        bytes_{bytes} {
    REQUIRE(start_ != MAP_FAILED);
  }
  pages& operator=(pages&&) = delete;
  ~pages() { unmap(); }

  void unmap() {
    if (start_ != nullptr) munmap(start_, bytes_);
    start_ = nullptr;
  }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(start_) + offset;
  }

 private:
  void* start_;
  std::size_t bytes_;
};

class registered {
 public:
  registered(void* start, std::size_t bytes, unsigned flags = hipHostRegisterDefault)
      : start_{start} {
    REQUIRE(hipHostRegister(start, bytes, flags) == hipSuccess);
  }
  registered& operator=(registered&&) = delete;
  ~registered() { CHECK(hipHostUnregister(start_) == hipSuccess); }

 private:
  void* start_;
};

}  // namespace

TIDY_CASE("hipHostRegister: arguments outside the rules are refused") {
  const pages some{2 * page};
  const pages none{page, PROT_NONE};
  const allocation device{page};
  const mapped mapping{granule};
  const reservation unmapped{granule};
  const managed unified{page};
  // Last, so that nothing else is put into the gap.
  const pages gap{3 * page};
  REQUIRE(munmap(gap.at(page), page) == 0);
  check_refusals({
      {"flag 0xF0", hipHostRegister(some.at(), page, 0xF0)},
      {"flag 0xFFF2", hipHostRegister(some.at(), page, 0xFFF2)},
      {"all flags", hipHostRegister(some.at(), page, 0xFFFFFFFF)},
      {"memory that is not there", hipHostRegister(gap.at(), 3 * page, 0)},
      {"memory that ends too early", hipHostRegister(some.at(), std::size_t{1} << 40U, 0)},
      {"wrapping", hipHostRegister(some.at(), SIZE_MAX, 0)},
      {"memory that may not be read", hipHostRegister(none.at(), page, 0)},
      {"hipMalloc memory", hipHostRegister(device.at(), page, 0)},
      {"a mapping", hipHostRegister(mapping.at(), page, 0)},
      {"a reservation", hipHostRegister(unmapped.at(), page, 0)},
      {"managed memory", hipHostRegister(unified.at(), page, 0)},
  });
}

TIDY_CASE("hipHostRegister: the flags of every release are taken and told") {
  const pages some{page};
  for (const unsigned flags : {0U, 1U, 2U, 3U, 4U, 8U, 0x80000000U, 0x80000003U}) {
    CAPTURE(flags);
    const registered here{some.at(), 4, flags};
    unsigned told = 99;
    CHECK(hipHostGetFlags(&told, some.at(3)) == hipSuccess);
    CHECK(told == flags);
  }
}

TIDY_CASE("hipHostRegister: memory that is pinned already is refused, its neighbours are not") {
  const pages some{4 * page};
  const pinned host{page};
  const registered middle{some.at(1000), 2000};
  check_refusals({
      {"inside", hipHostRegister(some.at(1500), 1, 0), hipErrorHostMemoryAlreadyRegistered},
      {"hipHostMalloc memory", hipHostRegister(host.at(), 1, 0),
       hipErrorHostMemoryAlreadyRegistered},
  });
  const registered before{some.at(), 1000};
  const registered after{some.at(3000), page};
  CHECK(live_objects().registrations == 3);
}

TIDY_CASE("hipHostUnregister: what is not the start of a registration is refused") {
  const pages some{page};
  const pinned host{page};
  const registered here{some.at(8), 8};
  check_refusals({
      {"beside it", hipHostUnregister(some.at()), hipErrorHostMemoryNotRegistered},
      {"hipHostMalloc memory", hipHostUnregister(host.at()), hipErrorHostMemoryNotRegistered},
      {"hipHostFree", hipHostFree(some.at(8))},
      {"hipFree", hipFree(some.at(8))},
  });
}

TIDY_CASE("hipHostUnregister: the second time is refused, and the address on devices is gone") {
  const pages some{page};
  void* on_device = nullptr;
  {
    const registered here{some.at(), page};
    REQUIRE(hipHostGetDevicePointer(&on_device, some.at(5), 0) == hipSuccess);
    CHECK(on_device == some.at(5));
  }
  CHECK(hipHostUnregister(some.at()) == hipErrorHostMemoryNotRegistered);
  CHECK(hipHostGetDevicePointer(&on_device, some.at(5), 0) == hipErrorInvalidValue);
}

TIDY_CASE("hipHostUnregister: waits for the work of every device") {
  const stream work{hipStreamNonBlocking, 2};
  const pages some{page};
  REQUIRE(hipHostRegister(some.at(), page, 0) == hipSuccess);
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(work.get(), set, &ran) == hipSuccess);
  CHECK(hipHostUnregister(some.at()) == hipSuccess);
  CHECK(ran);
}

TIDY_CASE("hipHostRegister: every device may fill and copy the memory") {
  const pages some{page};
  const registered here{some.at(), page};
  for (int device = 0; device < 3; ++device) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    CHECK(hipMemset(some.at(), device + 1, page) == hipSuccess);
    CHECK(equal(some.at(), bytes_of(page, device + 1)));
  }
}

TIDY_CASE("hipHostRegister: an asynchronous copy to registered memory does not wait") {
  const pages some{page};
  const registered here{some.at(), page};
  const allocation device{page};
  REQUIRE(fill_and_wait(device.at(), 7, page) == hipSuccess);
  const stream work;
  held_streams held;
  REQUIRE(hipMemcpyAsync(some.at(), device.at(), page, hipMemcpyDeviceToHost, work.get()) ==
          hipSuccess);
  CHECK(equal(some.at(), bytes_of(page, 0)));
  held.release();
  REQUIRE(work.wait() == hipSuccess);
  CHECK(equal(some.at(), bytes_of(page, 7)));
}

TIDY_CASE("hipHostRegister: memory that the host may only read is not written by devices") {
  const pages some{page, PROT_READ};
  const registered here{some.at(), page};
  const allocation device{page};
  CHECK(hipMemcpy(device.at(), some.at(), page, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(hipMemset(some.at(), 1, page) == hipErrorInvalidValue);
  CHECK(hipMemcpy(some.at(), device.at(), page, hipMemcpyDeviceToHost) == hipErrorInvalidValue);
}

TIDY_CASE("hipHostRegister: a copy that leaves the registered bytes is refused") {
  const pages some{2 * page};
  const registered here{some.at(), page};
  const allocation device{2 * page};
  CHECK(hipMemcpy(device.at(), some.at(), page + 1, hipMemcpyHostToDevice) == hipErrorInvalidValue);
}

TIDY_CASE("hipPointerGetAttributes: registered memory is host memory with an address on devices") {
  const pages some{page};
  const registered here{some.at(), page, hipHostRegisterMapped};
  hipPointerAttribute_t attributes{};
  REQUIRE(hipPointerGetAttributes(&attributes, some.at(9)) == hipSuccess);
  CHECK(hipvmm::hip_compat::memory_type(attributes) == hipMemoryTypeHost);
  CHECK(attributes.hostPointer == some.at(9));
  CHECK(attributes.devicePointer == some.at(9));
  CHECK(attributes.isManaged == 0);
  CHECK(attributes.allocationFlags == hipHostRegisterMapped);
}

TIDY_CASE("hipMemAdvise: registered memory takes advice and forgets it with the registration") {
  const pages some{page};
  {
    const registered here{some.at(10), 1024};
    advise(some.at(10), 1024, hipMemAdviseSetPreferredLocation, 1);
    CHECK(attribute(hipMemRangeAttributePreferredLocation, some.at(10), 1024) == 1);
    CHECK(hipMemPrefetchAsync(some.at(10), 1024, 2, nullptr) == hipSuccess);
    CHECK(attribute(hipMemRangeAttributeLastPrefetchLocation, some.at(10), 1024) == 2);
    REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
    CHECK(residence(some.at(10)) == std::vector<int>{hipCpuDeviceId});
  }
  const registered again{some.at(10), 1024};
  CHECK(attribute(hipMemRangeAttributePreferredLocation, some.at(10), 1024) == hipInvalidDeviceId);
}

TIDY_CASE("hipHostRegister: memory unmapped behind HIP's back makes way for new memory") {
  pages some{2 * granule};
  const auto start = reinterpret_cast<std::uintptr_t>(some.at());
  const std::size_t to_boundary = (granule - start % granule) % granule;
  std::byte* const aligned = some.at(to_boundary);
  REQUIRE(hipHostRegister(aligned + 100, 50, 0) == hipSuccess);
  some.unmap();
  void* reserved = nullptr;
  REQUIRE(hipMemAddressReserve(&reserved, granule, 0, aligned, 0) == hipSuccess);
  REQUIRE(reserved == aligned);
  CHECK(live_objects().registrations == 0);
  CHECK(hipHostUnregister(aligned + 100) == hipErrorHostMemoryNotRegistered);
  CHECK(hipMemAddressFree(reserved, granule) == hipSuccess);
}

TIDY_CASE("hipHostRegister: of threads that register the same memory one succeeds") {
  const pages some{page};
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> succeeded{0};
    std::atomic<int> refused{0};
    const auto attempt = [&] {
      const hipError_t error = hipHostRegister(some.at(), page, 0);
      if (error == hipSuccess) ++succeeded;
      if (error == hipErrorHostMemoryAlreadyRegistered) ++refused;
    };
    std::array<std::thread, 4> threads;
    for (std::thread& each : threads) each = std::thread{attempt};
    for (std::thread& each : threads) each.join();
    REQUIRE(succeeded == 1);
    REQUIRE(refused == 3);
    REQUIRE(hipHostUnregister(some.at()) == hipSuccess);
  }
}

TIDY_CASE("hipHostGetFlags: arguments outside the rules are refused") {
  const pinned host{page};
  const allocation device{page};
  const managed unified{page};
  int pageable = 0;
  unsigned flags = 0;
  check_refusals({
      {"null flags", hipHostGetFlags(nullptr, host.at())},
      {"null pointer", hipHostGetFlags(&flags, nullptr)},
      {"hipMalloc memory", hipHostGetFlags(&flags, device.at())},
      {"managed memory", hipHostGetFlags(&flags, unified.at())},
      {"pageable memory", hipHostGetFlags(&flags, &pageable)},
  });
}

TIDY_CASE("hipHostGetFlags: the flags of hipHostMalloc are told as they were given") {
  constexpr std::array<unsigned, 5> all{
      hipHostMallocDefault, hipHostMallocPortable, hipHostMallocMapped | hipHostMallocWriteCombined,
      hipHostMallocNumaUser | hipHostMallocCoherent, hipHostMallocNonCoherent};
  for (const unsigned flags : all) {
    CAPTURE(flags);
    void* pointer = nullptr;
    REQUIRE(hipHostMalloc(&pointer, page, flags) == hipSuccess);
    unsigned told = 99;
    CHECK(hipHostGetFlags(&told, pointer) == hipSuccess);
    CHECK(told == flags);
    CHECK(hipHostFree(pointer) == hipSuccess);
  }
}

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "core/hip_compat.hpp"
#include "providers/host/tests/graph/capture_fixtures.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

using namespace hipvmm::test;

TIDY_CASE("copy: arguments outside the rules are refused") {
  const mapped mapping{granule};
  const allocation device{4096};
  const pinned host{4096};
  const reservation unmapped{granule};
  std::vector<std::byte> pageable(4096);
  std::byte* const plain = pageable.data();
  constexpr auto h2d = hipMemcpyHostToDevice;
  constexpr auto d2h = hipMemcpyDeviceToHost;
  constexpr auto any = hipMemcpyDefault;
  check_refusals({
      {"null, with a stream", hipMemcpyWithStream(nullptr, plain, 1, any, nullptr)},
      {"no stream", hipMemcpyWithStream(device.at(), plain, 1, any, as_handle<hipStream_t>(64)),
       hipErrorInvalidHandle},
      {"over the end of hipHostMalloc", hipMemcpy(host.at(4095), device.at(), 2, any)},
      {"more than there are addresses", hipMemcpy(device.at(), plain, SIZE_MAX, any)},
      {"host to device, from device", hipMemcpy(device.at(), device.at(64), 64, h2d)},
      {"device to host, to device", hipMemcpy(device.at(), device.at(64), 64, d2h)},
      {"device to host, from pageable", hipMemcpy(plain, plain + 64, 64, d2h)},
      {"host to host, from device", hipMemcpy(plain, device.at(), 64, hipMemcpyHostToHost)},
      {"device to device, from pageable",
       hipMemcpy(device.at(), plain, 64, hipMemcpyDeviceToDevice)},
      {"hipMemcpyHtoD to pageable", hipMemcpyHtoD(plain, plain + 64, 64)},
      {"hipMemcpyHtoD from device", hipMemcpyHtoD(device.at(), device.at(64), 64)},
      {"hipMemcpyDtoH to device", hipMemcpyDtoH(device.at(), device.at(64), 64)},
      {"hipMemcpyDtoD from pageable", hipMemcpyDtoD(device.at(), plain, 64)},
      {"peer to no device", hipMemcpyPeer(device.at(), 3, device.at(64), 0, 64),
       hipErrorInvalidDevice},
      {"peer from no device", hipMemcpyPeer(device.at(), 0, device.at(64), -1, 64),
       hipErrorInvalidDevice},
      {"peer from pageable", hipMemcpyPeer(device.at(), 0, plain, 0, 64)},
      {"peer to pageable", hipMemcpyPeer(plain, 0, device.at(), 0, 64)},
      {"peer null", hipMemcpyPeer(nullptr, 0, device.at(), 0, 64)},
  });
}

TIDY_CASE("copy: no bytes are always copied, from nowhere to nowhere") {
  CHECK(hipMemcpy(nullptr, nullptr, 0, hipMemcpyDefault) == hipSuccess);
  CHECK(hipMemcpyAsync(nullptr, nullptr, 0, hipMemcpyDefault, nullptr) == hipSuccess);
  CHECK(hipMemcpyPeer(nullptr, 0, nullptr, 1, 0) == hipSuccess);
}

TIDY_CASE("copy: every function carries every byte to its place") {
  constexpr std::size_t bytes = 3 * granule / 2 + 12345;  // several slices and a rest
  const mapped first{2 * granule};
  const mapped second{2 * granule};
  const stream work;
  std::vector<std::byte> pattern = counted_bytes(bytes);
  std::vector<std::byte> back(bytes);
  struct row {
    const char* what;
    hipError_t (*in)(void*, void*, std::size_t, hipStream_t);
    hipError_t (*across)(void*, void*, std::size_t, hipStream_t);
    hipError_t (*out)(void*, void*, std::size_t, hipStream_t);
  };
  for (const row& each : {row{"hipMemcpy",
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpy(to, from, n, hipMemcpyHostToDevice);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpy(to, from, n, hipMemcpyDeviceToDevice);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpy(to, from, n, hipMemcpyDeviceToHost);
                              }},
                          row{"hipMemcpyAsync",
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyAsync(to, from, n, hipMemcpyDefault, on);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyAsync(to, from, n, hipMemcpyDefault, on);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyAsync(to, from, n, hipMemcpyDefault, on);
                              }},
                          row{"XtoY",
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpyHtoD(to, from, n);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpyDtoD(to, from, n);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpyDtoH(to, from, n);
                              }},
                          row{"XtoYAsync",
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyHtoDAsync(to, from, n, on);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyDtoDAsync(to, from, n, on);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyDtoHAsync(to, from, n, on);
                              }},
                          row{"peer",
                              [](void*to, void*from, std::size_t n, hipStream_t) {
                                return hipMemcpyHtoD(to, from, n);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyPeerAsync(to, 0, from, 0, n, on);
                              },
                              [](void*to, void*from, std::size_t n, hipStream_t on) {
                                return hipMemcpyDtoHAsync(to, from, n, on);
                              }}}) {
    CAPTURE(each.what);
    REQUIRE(hipMemset(first.at(), 0, 2 * granule) == hipSuccess);
    REQUIRE(fill_and_wait(second.at(), 0, 2 * granule) == hipSuccess);
    back.assign(bytes, std::byte{0});
    CHECK(each.in(first.at(1), pattern.data(), bytes, work.get()) == hipSuccess);
    CHECK(each.across(second.at(2), first.at(1), bytes, work.get()) == hipSuccess);
    CHECK(each.out(back.data(), second.at(2), bytes, work.get()) == hipSuccess);
    CHECK(work.wait() == hipSuccess);
    CHECK(back == pattern);
    CHECK(second.at()[1] == std::byte{0});
    CHECK(second.at()[2 + bytes] == std::byte{0});
  }
}

TIDY_CASE("copy: overlapping ranges are copied as if through a third place") {
  constexpr std::size_t bytes = 3 * granule / 2;
  const mapped mapping{2 * granule};
  const std::vector<std::byte> pattern = counted_bytes(bytes);
  for (const auto& [to, from] : {std::pair<std::size_t, std::size_t>{777, 0}, {0, 777}}) {
    CAPTURE(to);
    REQUIRE(hipMemcpyHtoD(mapping.at(from), const_cast<std::byte*>(pattern.data()), bytes) ==
            hipSuccess);
    CHECK(hipMemcpyDtoD(mapping.at(to), mapping.at(from), bytes) == hipSuccess);
    CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
    CHECK(equal(mapping.at(to), pattern));
  }
}

TIDY_CASE("copy: a range may run over neighbouring mappings, in both directions") {
  const reservation addresses{3 * granule};
  const hipMemAccessDesc wanted = access_of(0);
  for (std::size_t i = 0; i < 3; ++i) {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(i * granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  REQUIRE(hipMemSetAccess(addresses.at(), 3 * granule, &wanted, 1) == hipSuccess);
  std::vector<std::byte> pattern = counted_bytes(2 * granule + 99);
  CHECK(hipMemcpyHtoD(addresses.at(1), pattern.data(), pattern.size()) == hipSuccess);
  CHECK(hipMemcpyDtoD(addresses.at(granule / 2), addresses.at(1), pattern.size()) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(equal(addresses.at(granule / 2), pattern));
  CHECK(hipMemUnmap(addresses.at(), 3 * granule) == hipSuccess);
}

TIDY_CASE("copy: a range that runs into memory without access is refused whole") {
  const reservation addresses{2 * granule};
  const hipMemAccessDesc wanted = access_of(0);
  for (std::size_t i = 0; i < 2; ++i) {
    const memory chunk{granule};
    REQUIRE(hipMemMap(addresses.at(i * granule), granule, 0, chunk.get(), 0) == hipSuccess);
  }
  REQUIRE(hipMemSetAccess(addresses.at(), granule, &wanted, 1) == hipSuccess);
  std::vector<std::byte> ones = bytes_of(granule + 1, 1);
  CHECK(hipMemcpyHtoD(addresses.at(), ones.data(), granule + 1) == hipErrorInvalidValue);
  CHECK(*addresses.at() == std::byte{0});
  CHECK(hipMemcpyHtoD(addresses.at(), ones.data(), granule) == hipSuccess);
  CHECK(hipMemUnmap(addresses.at(), 2 * granule) == hipSuccess);
}

TIDY_CASE("copy: a range that runs from a mapping into an allocation is refused") {
  void* both = nullptr;
  REQUIRE(hipMemAddressReserve(&both, 2 * granule, 0, nullptr, 0) == hipSuccess);
  REQUIRE(hipMemAddressFree(both, 2 * granule) == hipSuccess);
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, granule, 0, both, 0) == hipSuccess);
  REQUIRE(start == both);
  std::byte* const mapping = static_cast<std::byte*>(start);
  std::byte* const behind = mapping + granule;
  REQUIRE(::mmap(behind, granule, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == behind);
  REQUIRE(hipHostRegister(behind, granule, hipHostRegisterDefault) == hipSuccess);
  {
    const memory chunk{granule};
    const hipMemAccessDesc wanted = access_of(0);
    REQUIRE(hipMemMap(mapping, granule, 0, chunk.get(), 0) == hipSuccess);
    REQUIRE(hipMemSetAccess(mapping, granule, &wanted, 1) == hipSuccess);
  }
  CHECK(hipMemset(behind - 8, 1, 16) == hipErrorInvalidValue);
  CHECK(hipMemset(behind - 8, 1, 8) == hipSuccess);
  CHECK(hipMemset(behind, 1, 8) == hipSuccess);
  CHECK(hipMemUnmap(mapping, granule) == hipSuccess);
  CHECK(hipHostUnregister(behind) == hipSuccess);
  CHECK(::munmap(behind, granule) == 0);
  CHECK(hipMemAddressFree(start, granule) == hipSuccess);
}

TIDY_CASE("copy: mapped memory needs a right of the stream's device for what is done with it") {
  const mapped mapping{granule, {}};
  const allocation other{64};
  struct row {
    hipMemAccessFlags right;
    hipError_t reading;
    hipError_t writing;
  };
  for (const row& each :
       {row{hipMemAccessFlagsProtNone, hipErrorInvalidValue, hipErrorInvalidValue},
        row{hipMemAccessFlagsProtRead, hipSuccess, hipErrorInvalidValue},
        row{hipMemAccessFlagsProtReadWrite, hipSuccess, hipSuccess}}) {
    CAPTURE(each.right);
    mapping.give(1, hipMemAccessFlagsProtReadWrite);  // no help to device 0
    mapping.give(0, each.right);
    CHECK(hipMemcpyDtoD(other.at(), mapping.at(), 64) == each.reading);
    CHECK(hipMemcpyDtoD(mapping.at(), other.at(), 64) == each.writing);
    CHECK(hipStreamSynchronize(nullptr) == hipSuccess);  // copies inside a device only begin
    const stream work;
    CHECK(hipMemcpyDtoDAsync(other.at(), mapping.at(), 64, work.get()) == each.reading);
    CHECK(hipMemcpyDtoDAsync(mapping.at(), other.at(), 64, work.get()) == each.writing);
    CHECK(work.wait() == hipSuccess);
  }
}

TIDY_CASE("copy: it is the stream's device that counts, not the current one") {
  const mapped mapping{granule, {1}};
  const allocation other{64};
  const stream work{hipStreamNonBlocking, 1};
  CHECK(hipMemcpyDtoDAsync(mapping.at(), other.at(), 64, work.get()) == hipSuccess);
  CHECK(work.wait() == hipSuccess);
  CHECK(hipMemcpyDtoD(mapping.at(), other.at(), 64) == hipErrorInvalidValue);
}

TIDY_CASE("copy: hipMalloc memory of any device is copied, for the runtime stages it") {
  const allocation here{64, 0};
  const allocation there{64, 2};
  REQUIRE(fill_and_wait(here.at(), 7, 64) == hipSuccess);
  CHECK(hipMemcpyDtoD(there.at(), here.at(), 64) == hipSuccess);
  std::vector<std::byte> back(64);
  CHECK(hipMemcpyDtoH(back.data(), there.at(), 64) == hipSuccess);
  CHECK(back == bytes_of(64, 7));
}

TIDY_CASE("copy: a peer copy asks each side's own device") {
  const mapped on_0{granule, {0}, 0};
  const mapped on_2{granule, {2}, 2};
  const allocation malloc_1{64, 1};
  REQUIRE(hipMemset(on_0.at(), 5, 64) == hipSuccess);
  CHECK(hipMemcpyPeer(on_2.at(), 2, on_0.at(), 0, 64) == hipSuccess);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(equal(on_2.at(), bytes_of(64, 5)));
  CHECK(hipMemcpyPeer(malloc_1.at(), 1, on_0.at(), 0, 64) == hipSuccess);
  check_refusals({
      {"destination of another", hipMemcpyPeer(on_2.at(), 0, on_0.at(), 0, 64)},
      {"source of another", hipMemcpyPeer(on_2.at(), 2, on_0.at(), 2, 64)},
      {"hipMalloc of another", hipMemcpyPeer(malloc_1.at(), 0, on_0.at(), 0, 64)},
  });
}

TIDY_CASE("copy: pinned memory passes as host and as device memory") {
  const pinned host{64};
  const allocation device{64};
  CHECK(hipMemcpy(device.at(), host.at(), 64, hipMemcpyHostToDevice) == hipSuccess);
  CHECK(hipMemcpy(device.at(), host.at(), 64, hipMemcpyDeviceToDevice) == hipSuccess);
  CHECK(hipMemcpy(host.at(), device.at(), 64, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(hipMemcpy(host.at(), host.at(32), 32, hipMemcpyHostToHost) == hipSuccess);
}

TIDY_CASE("copy: pageable memory has been read when a small asynchronous copy returns") {
  const mapped mapping{granule};
  const stream work;
  std::vector<std::byte> source = bytes_of(std::size_t{64} << 10U, 3);
  {
    const held_streams held;
    REQUIRE(hipMemcpyAsync(mapping.at(), source.data(), source.size(), hipMemcpyHostToDevice,
                           work.get()) == hipSuccess);
    source.assign(source.size(), std::byte{4});
    CHECK(*mapping.at() == std::byte{0});
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(equal(mapping.at(), bytes_of(source.size(), 3)));
}

TIDY_CASE("copy: pageable memory has been read when a large asynchronous copy returns") {
  const mapped mapping{granule};
  const stream work;
  bool ran = false;
  const auto set = [](void* flag) { *static_cast<bool*>(flag) = true; };
  REQUIRE(hipLaunchHostFunc(work.get(), set, &ran) == hipSuccess);
  std::vector<std::byte> source = bytes_of(granule, 3);
  REQUIRE(hipMemcpyAsync(mapping.at(), source.data(), granule, hipMemcpyHostToDevice, work.get()) ==
          hipSuccess);
  CHECK(ran);
  CHECK(equal(mapping.at(), bytes_of(granule, 3)));
}

TIDY_CASE("copy: pageable memory has been written when an asynchronous copy returns") {
  const mapped mapping{granule};
  const stream work;
  REQUIRE(hipMemsetAsync(mapping.at(), 6, 64, work.get()) == hipSuccess);
  std::vector<std::byte> back(64);
  REQUIRE(hipMemcpyAsync(back.data(), mapping.at(), 64, hipMemcpyDeviceToHost, work.get()) ==
          hipSuccess);
  CHECK(back == bytes_of(64, 6));
}

TIDY_CASE("copy: between pinned and device memory the call does not wait") {
  const mapped mapping{granule};
  const pinned host{granule};
  const stream work;
  std::fill_n(host.at(), granule, std::byte{8});
  {
    const held_streams held;
    REQUIRE(hipMemcpyAsync(mapping.at(), host.at(), granule, hipMemcpyHostToDevice, work.get()) ==
            hipSuccess);
    CHECK(hipStreamQuery(work.get()) == hipErrorNotReady);
    CHECK(*mapping.at() == std::byte{0});
  }
  CHECK(work.wait() == hipSuccess);
  CHECK(equal(mapping.at(), bytes_of(granule, 8)));
}

TIDY_CASE("hipMemcpyWithStream: waits for its stream and for no other") {
  const allocation device{64};
  const stream work;
  const stream other;
  roadblock in_other{other.get()};
  REQUIRE(hipMemsetAsync(device.at(), 3, 64, work.get()) == hipSuccess);
  std::vector<std::byte> back(64);
  CHECK(hipMemcpyWithStream(back.data(), device.at(), 64, hipMemcpyDeviceToHost, work.get()) ==
        hipSuccess);
  CHECK(back == bytes_of(64, 3));
  CHECK(hipStreamQuery(other.get()) == hipErrorNotReady);
}

TIDY_CASE("hipMemcpyWithStream: between pinned and device memory is done when it returns") {
  const allocation device{mib};
  const pinned host{mib};
  const stream work;
  REQUIRE(hipMemsetAsync(device.at(), 4, mib, work.get()) == hipSuccess);
  CHECK(hipMemcpyWithStream(host.at(), device.at(), mib, hipMemcpyDeviceToHost, work.get()) ==
        hipSuccess);
  CHECK(hipStreamQuery(work.get()) == hipSuccess);
  CHECK(equal(host.at(), bytes_of(mib, 4)));
}

TIDY_CASE("hipMemcpyWithStream: a captured stream records it") {
  const allocation device{64};
  const pinned host{64};
  const stream work;
  std::fill_n(host.at(), 64, std::byte{1});
  begin_capture(work.get());
  CHECK(hipMemcpyWithStream(device.at(), host.at(), 64, hipMemcpyHostToDevice, work.get()) ==
        hipSuccess);
  const recorded_graph graph{end_capture(work.get())};
  CHECK(graph.nodes().size() == 1);
}

TIDY_CASE("hipMemcpyAsync: bytes of the host have reached the host when it returns") {
  const pinned from{64};
  const pinned to{64};
  const stream work;
  std::vector<std::byte> plain = bytes_of(64, 3);
  *from.at() = std::byte{5};
  const held_streams held;
  CHECK(hipMemcpyAsync(to.at(), from.at(), 64, hipMemcpyHostToHost, work.get()) == hipSuccess);
  CHECK(*to.at() == std::byte{5});
  CHECK(hipMemcpyAsync(to.at(), plain.data(), 64, hipMemcpyDefault, work.get()) == hipSuccess);
  CHECK(*to.at() == std::byte{3});
}

TIDY_CASE("hipMemcpy: a copy inside a device returns before it has run") {
  const allocation from{64};
  const allocation to{64};
  REQUIRE(fill_and_wait(from.at(), 7, 64) == hipSuccess);
  REQUIRE(fill_and_wait(to.at(), 1, 64) == hipSuccess);
  {
    const held_streams held;
    CHECK(hipMemcpy(to.at(), from.at(), 64, hipMemcpyDeviceToDevice) == hipSuccess);
    CHECK(hipStreamQuery(nullptr) == hipErrorNotReady);
    CHECK(*to.at() == std::byte{1});
  }
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
  CHECK(*to.at() == std::byte{7});
}

TIDY_CASE("hipMemcpyPeer: returns at once, and orders the work of both devices around it") {
  const allocation of_0{64};
  const allocation of_1{64, 1};
  const stream blocking_1{hipStreamDefault, 1};
  std::vector<std::byte> ones = bytes_of(64, 1);
  REQUIRE(hipMemcpyHtoD(of_1.at(), ones.data(), 64) == hipSuccess);
  std::byte seen{0};
  {
    const held_streams held;
    CHECK(hipMemset(of_0.at(), 7, 64) == hipSuccess);
    CHECK(hipMemcpyPeer(of_1.at(), 1, of_0.at(), 0, 64) == hipSuccess);
    CHECK(hipStreamQuery(nullptr) == hipErrorNotReady);
    CHECK(*of_1.at() == std::byte{1});
    CHECK(hipMemsetAsync(of_1.at(32), 9, 32, blocking_1.get()) == hipSuccess);
  }
  CHECK(blocking_1.wait() == hipSuccess);
  CHECK(*of_1.at() == std::byte{7});
  CHECK(*of_1.at(32) == std::byte{9});
  CHECK(hipSetDevice(1) == hipSuccess);
  CHECK(hipMemset(of_1.at(), 5, 64) == hipSuccess);
  CHECK(hipSetDevice(0) == hipSuccess);
  CHECK(hipMemcpyPeer(of_0.at(), 0, of_1.at(), 1, 64) == hipSuccess);
  CHECK(hipMemcpy(&seen, of_0.at(), 1, hipMemcpyDeviceToHost) == hipSuccess);
  CHECK(seen == std::byte{5});
}

TIDY_CASE("copy: hipMemcpyDeviceToDeviceNoCU is a copy inside devices") {
  const allocation device{128};
  std::byte plain{};
  const auto no_cu = not_an_enumerator<hipMemcpyKind>(hipvmm::hip_compat::device_to_device_no_cu);
  CHECK(hipMemcpy(device.at(), device.at(64), 64, no_cu) == hipSuccess);
  CHECK(hipMemcpyAsync(device.at(), device.at(64), 64, no_cu, nullptr) == hipSuccess);
  CHECK(hipMemcpy(device.at(), &plain, 1, no_cu) == hipErrorInvalidValue);
  CHECK(hipStreamSynchronize(nullptr) == hipSuccess);
}

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem_pool_fixtures.hpp"
#include "sharing_fixture.hpp"

using namespace hipvmm::test;

namespace {

constexpr int inherited_data = 58;
constexpr const char* importing_child = "imports a pool and a pointer and answers through it";

int exported(const pool& source) {
  int descriptor = -1;
  REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, source.get(), posix, 0) == hipSuccess);
  return descriptor;
}

hipMemPoolPtrExportData exported(void* pointer) {
  hipMemPoolPtrExportData data{};
  REQUIRE(hipMemPoolExportPointer(&data, pointer) == hipSuccess);
  return data;
}

class import {
 public:
  explicit import(int descriptor) {
    REQUIRE(hipMemPoolImportFromShareableHandle(&pool_, by_value(descriptor), posix, 0) ==
            hipSuccess);
  }
  import& operator=(import&&) = delete;
  ~import() { CHECK(hipMemPoolDestroy(pool_) == hipSuccess); }
  [[nodiscard]] hipMemPool_t get() const { return pool_; }
  [[nodiscard]] std::byte* pointer(hipMemPoolPtrExportData data) const {
    void* pointer = nullptr;
    REQUIRE(hipMemPoolImportPointer(&pointer, pool_, &data) == hipSuccess);
    return static_cast<std::byte*>(pointer);
  }

 private:
  hipMemPool_t pool_ = nullptr;
};

}  // namespace

TIDY_CASE("hipMemPoolExportToShareableHandle: arguments outside the rules are refused") {
  const pool shareable{pool_on(0, posix)};
  const pool ordinary;
  int descriptor = -1;
  check_refusals({
      {"null result", hipMemPoolExportToShareableHandle(nullptr, shareable.get(), posix, 0)},
  });
  CHECK(descriptor == -1);
}

TIDY_CASE("hipMemPoolExportToShareableHandle: each call gives a new descriptor, closed on exec") {
  const pool source{pool_on(0, posix)};
  const file first{exported(source)};
  const file second{exported(source)};
  CHECK(first.get() != second.get());
  CHECK((::fcntl(first.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TIDY_CASE("hipMemPoolImportFromShareableHandle: arguments outside the rules are refused") {
  const pool source{pool_on(0, posix)};
  const file shared{exported(source)};
  const memory chunk{granule, 0, posix};
  int chunk_file = -1;
  REQUIRE(hipMemExportToShareableHandle(&chunk_file, chunk.get(), posix, 0) == hipSuccess);
  const file of_chunk{chunk_file};
  const file other{::memfd_create("hipvmm-pool-of-device-0", MFD_CLOEXEC)};
  hipMemPool_t made = nullptr;
  void* const handle = by_value(shared.get());
  const auto none = hipMemHandleTypeNone;
  check_refusals({
      {"null result", hipMemPoolImportFromShareableHandle(nullptr, handle, posix, 0)},
      {"no type", hipMemPoolImportFromShareableHandle(&made, handle, none, 0)},
      {"flags", hipMemPoolImportFromShareableHandle(&made, handle, posix, 1)},
      {"a chunk's descriptor",
       hipMemPoolImportFromShareableHandle(&made, by_value(of_chunk.get()), posix, 0)},
      {"a file of the same name",
       hipMemPoolImportFromShareableHandle(&made, by_value(other.get()), posix, 0)},
      {"no descriptor", hipMemPoolImportFromShareableHandle(&made, by_value(999), posix, 0)},
  });
}

TIDY_CASE("hipMemPoolExportPointer: arguments outside the rules are refused") {
  const pool shareable{pool_on(0, posix)};
  const pool ordinary;
  const allocation device{64};
  std::byte* const open = shareable.allocate(64, nullptr);
  std::byte* const closed = ordinary.allocate(64, nullptr);
  hipMemPoolPtrExportData data{};
  check_refusals({
      {"null result", hipMemPoolExportPointer(nullptr, open)},
      {"null pointer", hipMemPoolExportPointer(&data, nullptr)},
      {"interior", hipMemPoolExportPointer(&data, open + 1)},
      {"ordinary pool", hipMemPoolExportPointer(&data, closed)},
      {"hipMalloc", hipMemPoolExportPointer(&data, device.at())},
  });
  free_in(open, nullptr);
  free_in(closed, nullptr);
  CHECK(hipMemPoolExportPointer(&data, open) == hipErrorInvalidValue);
}

TIDY_CASE("hipMemPoolImportPointer: arguments outside the rules are refused") {
  const pool source{pool_on(0, posix)};
  const pool unrelated{pool_on(0, posix)};
  const file shared{exported(source)};
  const file of_unrelated{exported(unrelated)};
  const import imported{shared.get()};
  const import another{of_unrelated.get()};
  std::byte* const block = source.allocate(64, nullptr);
  hipMemPoolPtrExportData good = exported(block);
  hipMemPoolPtrExportData empty{};
  void* pointer = nullptr;
  check_refusals({
      {"null result", hipMemPoolImportPointer(nullptr, imported.get(), &good)},
      {"null data", hipMemPoolImportPointer(&pointer, imported.get(), nullptr)},
      {"empty data", hipMemPoolImportPointer(&pointer, imported.get(), &empty)},
      {"another pool", hipMemPoolImportPointer(&pointer, another.get(), &good)},
      {"a pool that is not imported", hipMemPoolImportPointer(&pointer, source.get(), &good)},
  });
  free_in(block, nullptr);
}

TIDY_CASE("mem_pool: an imported pointer shows the exporter's bytes, and the other way round") {
  const pool source{pool_on(0, posix)};
  const file shared{exported(source)};
  const import imported{shared.get()};
  const auto expected = counted_bytes(mib);
  std::byte* const first = source.allocate(4096, nullptr);
  std::byte* const block = source.allocate(mib, nullptr);
  REQUIRE(hipMemcpy(block, expected.data(), mib, hipMemcpyDefault) == hipSuccess);
  std::byte* const other = imported.pointer(exported(block));
  CHECK(other != block);
  CHECK(equal(other, expected));
  CHECK(fill_and_wait(other, 5, mib) == hipSuccess);
  CHECK(equal(block, bytes_of(mib, 5)));
  free_in(other, nullptr);
  free_in(block, nullptr);
  free_in(first, nullptr);
}

TIDY_CASE("mem_pool: imported memory is charged to nobody and not lent again") {
  const pool source{pool_on(0, posix)};
  const file shared{exported(source)};
  const import imported{shared.get()};
  std::byte* const block = source.allocate(mib, nullptr);
  std::byte* const other = imported.pointer(exported(block));
  CHECK(hipvmm_host_device_bytes(0) == mib);
  free_in(other, nullptr);
  CHECK(hipMemset(other, 1, 1) == hipErrorInvalidValue);
  void* fresh = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&fresh, mib, imported.get(), nullptr) == hipSuccess);
  CHECK(fill_and_wait(fresh, 9, mib) == hipSuccess);
  CHECK(*block != std::byte{9});
  free_in(fresh, nullptr);
  free_in(block, nullptr);
}

TIDY_CASE("mem_pool: an imported pool has the access that the exporter gave") {
  const pool source{pool_on(0, posix)};
  const hipMemAccessDesc wanted = access_of(1);
  REQUIRE(hipMemPoolSetAccess(source.get(), &wanted, 1) == hipSuccess);
  const file shared{exported(source)};
  const import imported{shared.get()};
  for (int device = 0; device < 3; ++device) {
    hipMemAccessFlags flags{};
    hipMemLocation location{hipMemLocationTypeDevice, device};
    REQUIRE(hipMemPoolGetAccess(&flags, imported.get(), &location) == hipSuccess);
    CHECK(flags == (device < 2 ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone));
  }
}

TIDY_CASE("mem_pool: an imported pool cannot be current, nor exported again") {
  const pool source{pool_on(0, posix)};
  const file shared{exported(source)};
  const import imported{shared.get()};
  int descriptor = -1;
  CHECK(hipDeviceSetMemPool(0, imported.get()) == hipErrorInvalidValue);
  CHECK(hipMemPoolExportToShareableHandle(&descriptor, imported.get(), posix, 0) ==
        hipErrorInvalidValue);
}

TIDY_CASE("mem_pool: what another process writes through an imported pointer is seen here") {
  const pool source{pool_on(1, posix)};
  const file shared{exported(source)};
  const auto sent = counted_bytes(mib);
  std::byte* const block = source.allocate(mib, nullptr);
  REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
  REQUIRE(hipSetDevice(1) == hipSuccess);
  REQUIRE(hipMemcpy(block, sent.data(), mib, hipMemcpyDefault) == hipSuccess);
  REQUIRE(hipSetDevice(0) == hipSuccess);
  const hipMemPoolPtrExportData data = exported(block);
  const file message{::memfd_create("pointer", 0)};
  REQUIRE(::pwrite(message.get(), &data, sizeof(data), 0) == sizeof(data));
  check_child(importing_child, {}, {{shared.get(), inherited}, {message.get(), inherited_data}});
  CHECK(equal(block, bytes_of(mib, 0x5A)));
  free_in(block, nullptr);
}

HIPVMM_CHILD("imports a pool and a pointer and answers through it") {
  const nothing_left check;
  const import imported{inherited};
  hipMemPoolPtrExportData data{};
  REQUIRE(::pread(inherited_data, &data, sizeof(data), 0) == sizeof(data));
  std::byte* const block = imported.pointer(data);
  CHECK(equal(block, counted_bytes(mib)));
  REQUIRE(hipSetDevice(1) == hipSuccess);
  CHECK(fill_and_wait(block, 0x5A, mib) == hipSuccess);
  CHECK(hipFree(block) == hipSuccess);
}

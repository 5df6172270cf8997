// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "providers/host/tests/pool/sharing_fixture.hpp"

using namespace hipvmm::test;

namespace {

constexpr const char* importing_chunk_child = "imports a chunk and answers through it";

int exported(const memory& chunk) {
  int descriptor = -1;
  REQUIRE(hipMemExportToShareableHandle(&descriptor, chunk.get(), posix, 0) == hipSuccess);
  return descriptor;
}

hipError_t import(void* os_handle) {
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipError_t error = hipMemImportFromShareableHandle(&handle, os_handle, posix);
  if (error == hipSuccess) REQUIRE(hipMemRelease(handle) == hipSuccess);
  return error;
}

// Maps a chunk, open to device 0 for as long as the object lives.
class window {
 public:
  explicit window(hipMemGenericAllocationHandle_t handle, int user = 0) : addresses_{granule} {
    REQUIRE(hipMemMap(addresses_.at(), granule, 0, handle, 0) == hipSuccess);
    const hipMemAccessDesc wanted = access_of(user);
    REQUIRE(hipMemSetAccess(addresses_.at(), granule, &wanted, 1) == hipSuccess);
  }
  window& operator=(window&&) = delete;
  ~window() { CHECK(hipMemUnmap(addresses_.at(), granule) == hipSuccess); }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return addresses_.at(offset); }

 private:
  reservation addresses_;
};

}  // namespace

TIDY_CASE("hipMemExportToShareableHandle: arguments outside the rules are refused") {
  const memory shareable{granule, 0, posix};
  const memory ordinary{granule};
  int descriptor = -1;
  check_refusals({
      {"null result", hipMemExportToShareableHandle(nullptr, shareable.get(), posix, 0)},
      {"null handle", hipMemExportToShareableHandle(&descriptor, nullptr, posix, 0)},
      {"flags", hipMemExportToShareableHandle(&descriptor, shareable.get(), posix, 1)},
      {"another type",
       hipMemExportToShareableHandle(&descriptor, shareable.get(), hipMemHandleTypeWin32, 0)},
      {"no type",
       hipMemExportToShareableHandle(&descriptor, shareable.get(), hipMemHandleTypeNone, 0)},
      {"an ordinary chunk", hipMemExportToShareableHandle(&descriptor, ordinary.get(), posix, 0)},
      {"an ordinary chunk as such",
       hipMemExportToShareableHandle(&descriptor, ordinary.get(), hipMemHandleTypeNone, 0)},
  });
  CHECK(descriptor == -1);
}

TIDY_CASE("hipMemImportFromShareableHandle: only a descriptor that was exported is taken") {
  const memory chunk{granule, 0, posix};
  const file good{exported(chunk)};
  const file other{::open("/dev/zero", O_RDWR)};
  const file anonymous{memfd_create("something", MFD_ALLOW_SEALING)};
  const file imitation{memfd_create("hipvmm-chunk-of-device-0", MFD_ALLOW_SEALING)};
  const file far_device{memfd_create("hipvmm-chunk-of-device-3", MFD_ALLOW_SEALING)};
  const file odd_size{memfd_create("hipvmm-chunk-of-device-0", MFD_ALLOW_SEALING)};
  const file empty{memfd_create("hipvmm-chunk-of-device-0", MFD_ALLOW_SEALING)};
  const file bad_name{memfd_create("hipvmm-chunk-of-device-0x", MFD_ALLOW_SEALING)};
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  REQUIRE(::ftruncate(imitation.get(), granule) == 0);
  REQUIRE(::ftruncate(far_device.get(), granule) == 0);
  REQUIRE(::ftruncate(bad_name.get(), granule) == 0);
  REQUIRE(::ftruncate(odd_size.get(), granule + 4096) == 0);
  for (const int each : {far_device.get(), bad_name.get(), odd_size.get(), empty.get()}) {
    REQUIRE(::fcntl(each, F_ADD_SEALS, seals) == 0);
  }
  hipMemGenericAllocationHandle_t handle = nullptr;
  check_refusals({
      {"null handle", hipMemImportFromShareableHandle(nullptr, by_value(good.get()), posix)},
      {"another type",
       hipMemImportFromShareableHandle(&handle, by_value(good.get()), hipMemHandleTypeNone)},
      {"null", import(nullptr)},
      {"no open descriptor", import(by_value(987654))},
      {"a device file", import(by_value(other.get()))},
      {"somebody's memory file", import(by_value(anonymous.get()))},
      {"a file that may shrink", import(by_value(imitation.get()))},
      {"a chunk of a device that is not here", import(by_value(far_device.get()))},
      {"a name that goes on", import(by_value(bad_name.get()))},
      {"not whole granules", import(by_value(odd_size.get()))},
      {"nothing", import(by_value(empty.get()))},
  });
}

TIDY_CASE("hipMemImportFromShareableHandle: the chunk is one of the exporter's device and size") {
  const memory chunk{2 * granule, 1, posix};
  const file shared{exported(chunk)};
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemImportFromShareableHandle(&handle, by_value(shared.get()), posix) == hipSuccess);
  hipMemAllocationProp properties{};
  CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, handle) == hipSuccess);
  CHECK(properties.location.id == 1);
  CHECK(properties.requestedHandleType == posix);
  const reservation addresses{3 * granule};
  CHECK(hipMemMap(addresses.at(), 3 * granule, 0, handle, 0) == hipErrorInvalidValue);
  CHECK(hipMemMap(addresses.at(), 2 * granule, 0, handle, 0) == hipSuccess);
  CHECK(hipMemUnmap(addresses.at(), 2 * granule) == hipSuccess);
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TIDY_CASE("hipMemImportFromShareableHandle: shows the exporter's memory, after it is gone too") {
  hipMemGenericAllocationHandle_t handle = nullptr;
  {
    const memory chunk{granule, 0, posix};
    const window source{chunk.get()};
    *source.at(123) = std::byte{77};
    const file shared{exported(chunk)};
    REQUIRE(hipMemImportFromShareableHandle(&handle, by_value(shared.get()), posix) == hipSuccess);
  }
  {
    const window target{handle};
    CHECK(*target.at(123) == std::byte{77});
  }
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TIDY_CASE("hipMemImportFromShareableHandle: an imported chunk is charged to no budget") {
  const memory chunk{granule, 0, posix};
  const file shared{exported(chunk)};
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemImportFromShareableHandle(&handle, by_value(shared.get()), posix) == hipSuccess);
  CHECK(hipvmm_host_device_bytes(0) == granule);
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TIDY_CASE("hipMemCreate: only shareable chunks hold descriptors") {
  const memory ordinary{granule};
  CHECK(live_objects().descriptors == 0);
  const memory shareable{granule, 0, posix};
  CHECK(live_objects().descriptors == 1);
}

HIPVMM_CHILD("imports a chunk and answers through it") {
  hipMemGenericAllocationHandle_t handle = nullptr;
  REQUIRE(hipMemImportFromShareableHandle(&handle, by_value(inherited), posix) == hipSuccess);
  {
    const window shared{handle, 1};
    CHECK(*shared.at(1) == std::byte{11});
    REQUIRE(hipSetDevice(1) == hipSuccess);
    CHECK(fill_and_wait(shared.at(2), 22, 1) == hipSuccess);
  }
  CHECK(hipMemRelease(handle) == hipSuccess);
}

TIDY_CASE("hipMemImportFromShareableHandle: another process writes into the same memory") {
  const memory chunk{granule, 1, posix};
  const window here{chunk.get(), 1};
  *here.at(1) = std::byte{11};
  const file shared{exported(chunk)};
  check_child(importing_chunk_child, {}, {{shared.get(), inherited}});
  CHECK(*here.at(2) == std::byte{22});
}

HIPVMM_TEST_CASE_IN("hipMemCreate: a process without descriptors is out of memory", {}) {
  const nothing_left check;
  const hipMemAllocationProp properties = chunk_on(0, posix);
  const memory before{granule, 0, posix};
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const file spare{::open("/dev/null", O_RDONLY)};
  limit.rlim_cur = static_cast<rlim_t>(spare.get());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  hipMemGenericAllocationHandle_t handle = nullptr;
  int descriptor = -1;
  CHECK(hipMemCreate(&handle, granule, &properties, 0) == hipErrorOutOfMemory);
  CHECK(hipMemExportToShareableHandle(&descriptor, before.get(), posix, 0) == hipErrorOutOfMemory);
  CHECK(hipvmm_host_device_bytes(0) == granule);
}

// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "fixtures.hpp"
#include "rules.hpp"
#include "support/devices.hpp"

using namespace hipvmm::test;

namespace {

hipMemPoolProps props(int device = 0, hipMemAllocationHandleType type = hipMemHandleTypeNone) {
  hipMemPoolProps wanted{};
  wanted.allocType = hipMemAllocationTypePinned;
  wanted.location = {hipMemLocationTypeDevice, device};
  wanted.handleTypes = type;
  return wanted;
}

hipMemPoolProps props_of_type(int type) {
  hipMemPoolProps wanted = props();
  wanted.allocType = no_such<hipMemAllocationType>(type);
  return wanted;
}

hipError_t create_pool(const hipMemPoolProps& wanted) {
  hipMemPool_t pool = nullptr;
  const hipError_t code = hipMemPoolCreate(&pool, &wanted);
  if (code == hipSuccess) REQUIRE(hipMemPoolDestroy(pool) == hipSuccess);
  return code;
}

struct own_pool : ended_object<hipMemPool_t, hipMemPoolDestroy> {
  explicit own_pool(const hipMemPoolProps& wanted = props()) {
    REQUIRE(hipMemPoolCreate(&handle, &wanted) == hipSuccess);
  }
};

std::uint64_t told(const own_pool& pool, hipMemPoolAttr attribute) {
  std::uint64_t value = 0;
  REQUIRE(hipMemPoolGetAttribute(pool.get(), attribute, &value) == hipSuccess);
  return value;
}

hipError_t set(const own_pool& pool, int attribute, std::uint64_t value) {
  return hipMemPoolSetAttribute(pool.get(), no_such<hipMemPoolAttr>(attribute), &value);
}

hipError_t allow(const own_pool& pool, int device, int flags, std::size_t count = 1) {
  const hipMemAccessDesc wanted = open_to(device, no_such<hipMemAccessFlags>(flags));
  return hipMemPoolSetAccess(pool.get(), &wanted, count);
}

}  // namespace

TEST_CASE("pool: its arguments") {
  hipMemPool_t pool = nullptr;
  const hipMemPoolProps wanted = props();
  check_rules({
      {"on a device", [] { return create_pool(props()); }, hipSuccess},
      {"shareable", [] { return create_pool(props(0, posix)); }, hipSuccess},
      {"no such device", [] { return create_pool(props(no_device)); }},
      {"another type", [] { return create_pool(props_of_type(0x7F)); }},
      {"a Windows handle", [] { return create_pool(props(0, hipMemHandleTypeWin32)); },
       hipErrorNotSupported},
      {"no result", [&] { return hipMemPoolCreate(nullptr, &wanted); }},
      {"no properties", [&] { return hipMemPoolCreate(&pool, nullptr); }},
      {"destroy null", [] { return hipMemPoolDestroy(nullptr); }},
      {"destroy a default pool",
       [&] {
         REQUIRE(hipDeviceGetDefaultMemPool(&pool, 0) == hipSuccess);
         return hipMemPoolDestroy(pool);
       }},
      {"trim null", [] { return hipMemPoolTrimTo(nullptr, 0); }},
      {"default of no such device", [&] { return hipDeviceGetDefaultMemPool(&pool, no_device); },
       hipErrorInvalidDevice},
      {"current of no such device", [&] { return hipDeviceGetMemPool(&pool, no_device); }},
      {"current of no such device, set", [&] { return hipDeviceSetMemPool(no_device, pool); }},
  });
}

TEST_CASE("pool: a device's current one may be set, and is the default again when it ends") {
  hipMemPool_t usual = nullptr;
  hipMemPool_t current = nullptr;
  REQUIRE(hipDeviceGetDefaultMemPool(&usual, 0) == hipSuccess);
  {
    const own_pool mine;
    REQUIRE(hipDeviceSetMemPool(0, mine.get()) == hipSuccess);
    REQUIRE(hipDeviceGetMemPool(&current, 0) == hipSuccess);
    CHECK(current == mine.get());
  }
  REQUIRE(hipDeviceGetMemPool(&current, 0) == hipSuccess);
  CHECK(current == usual);
}

TEST_CASE("pool: its attributes") {
  const own_pool pool;
  int value = 0;
  check_rules({
      {"threshold", [&] { return set(pool, hipMemPoolAttrReleaseThreshold, 1 << 20); }, hipSuccess},
      {"follow events", [&] { return set(pool, hipMemPoolReuseFollowEventDependencies, 0); },
       hipSuccess},
      {"high mark to 0", [&] { return set(pool, hipMemPoolAttrUsedMemHigh, 0); }, hipSuccess},
      {"high mark to more", [&] { return set(pool, hipMemPoolAttrUsedMemHigh, 1); }},
      {"reserved high mark to more", [&] { return set(pool, hipMemPoolAttrReservedMemHigh, 1); }},
      {"bytes in use", [&] { return set(pool, hipMemPoolAttrUsedMemCurrent, 0); }},
      {"reserved bytes", [&] { return set(pool, hipMemPoolAttrReservedMemCurrent, 0); }},
      {"unknown", [&] { return set(pool, 99, 0); }},
      {"no value",
       [&] { return hipMemPoolSetAttribute(pool.get(), hipMemPoolAttrReleaseThreshold, nullptr); }},
      {"no result",
       [&] { return hipMemPoolGetAttribute(pool.get(), hipMemPoolAttrReleaseThreshold, nullptr); }},
      {"ask unknown",
       [&] { return hipMemPoolGetAttribute(pool.get(), no_such<hipMemPoolAttr>(99), &value); }},
  });
  CHECK(told(pool, hipMemPoolAttrReleaseThreshold) == 1 << 20);
}

TEST_CASE("pool: starts with every way of reuse and keeps nothing") {
  const own_pool pool;
  for (const hipMemPoolAttr attribute :
       {hipMemPoolReuseFollowEventDependencies, hipMemPoolReuseAllowOpportunistic,
        hipMemPoolReuseAllowInternalDependencies}) {
    int on = 0;
    REQUIRE(hipMemPoolGetAttribute(pool.get(), attribute, &on) == hipSuccess);
    CHECK(on == 1);
  }
  CHECK(told(pool, hipMemPoolAttrReleaseThreshold) == 0);
}

TEST_CASE("pool memory: its arguments") {
  const own_pool pool;
  const own_stream stream;
  void* block = nullptr;
  check_rules({
      {"from the current pool", [&] { return hipMallocAsync(&block, 4096, stream.get()); },
       hipSuccess},
      {"free an address inside",
       [&] { return hipFreeAsync(static_cast<std::byte*>(block) + 256, stream.get()); }},
      {"free it", [&] { return hipFreeAsync(block, stream.get()); }, hipSuccess},
      {"free it again", [&] { return hipFreeAsync(block, stream.get()); }},
      {"free null", [&] { return hipFreeAsync(nullptr, stream.get()); }},
      {"no bytes", [&] { return hipMallocAsync(&block, 0, stream.get()); }, hipSuccess},
      {"no result", [&] { return hipMallocAsync(nullptr, 4096, stream.get()); }},
      {"no pool", [&] { return hipMallocFromPoolAsync(&block, 4096, nullptr, stream.get()); }},
      {"more than any device has",
       [&] {
         return hipMallocFromPoolAsync(&block, std::size_t{1} << 50U, pool.get(), stream.get());
       },
       hipErrorOutOfMemory},
  });
}

TEST_CASE_FIXTURE(own_pool, "pool memory: the stream that freed it gets it again") {
  const own_stream stream;
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&first, 1 << 20, get(), stream.get()) == hipSuccess);
  REQUIRE(hipFreeAsync(first, stream.get()) == hipSuccess);
  REQUIRE(hipMallocFromPoolAsync(&second, 1 << 20, get(), stream.get()) == hipSuccess);
  CHECK(first == second);
  CHECK(hipFreeAsync(second, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE_FIXTURE(own_pool, "pool memory: another stream gets it after an event of the free") {
  const own_stream freeing{hipStreamNonBlocking};
  const own_stream taking{hipStreamNonBlocking};
  hipEvent_t freed = nullptr;
  REQUIRE(hipEventCreateWithFlags(&freed, hipEventDisableTiming) == hipSuccess);
  void* first = nullptr;
  void* second = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&first, 1 << 20, get(), freeing.get()) == hipSuccess);
  {
    held back{freeing.get()};
    REQUIRE(hipFreeAsync(first, freeing.get()) == hipSuccess);
    REQUIRE(hipEventRecord(freed, freeing.get()) == hipSuccess);
    REQUIRE(hipStreamWaitEvent(taking.get(), freed, 0) == hipSuccess);
    REQUIRE(hipMallocFromPoolAsync(&second, 1 << 20, get(), taking.get()) == hipSuccess);
    CHECK(second == first);
  }
  CHECK(hipFreeAsync(second, taking.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(taking.get()) == hipSuccess);
  CHECK(hipEventDestroy(freed) == hipSuccess);
}

TEST_CASE("pool memory: another stream gets it once its free is reached, and not before") {
  const own_pool pool;
  REQUIRE(set(pool, hipMemPoolAttrReleaseThreshold, UINT64_MAX) == hipSuccess);
  int on = 0;
  REQUIRE(hipMemPoolSetAttribute(pool.get(), hipMemPoolReuseAllowInternalDependencies, &on) ==
          hipSuccess);
  const own_stream freeing{hipStreamNonBlocking};
  const own_stream taking{hipStreamNonBlocking};
  void* first = nullptr;
  void* early = nullptr;
  void* late = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&first, 1 << 20, pool.get(), freeing.get()) == hipSuccess);
  {
    held back{freeing.get()};
    REQUIRE(hipFreeAsync(first, freeing.get()) == hipSuccess);
    REQUIRE(hipMallocFromPoolAsync(&early, 1 << 20, pool.get(), taking.get()) == hipSuccess);
    CHECK(early != first);
  }
  REQUIRE(hipMallocFromPoolAsync(&late, 1 << 20, pool.get(), taking.get()) == hipSuccess);
  CHECK(late == first);
  CHECK(hipFreeAsync(early, taking.get()) == hipSuccess);
  CHECK(hipFreeAsync(late, taking.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(taking.get()) == hipSuccess);
}

TEST_CASE("pool: a high mark that is reset is 0, or on CUDA what is in use") {
  const own_pool pool;
  const own_stream stream;
  void* block = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&block, 1 << 20, pool.get(), stream.get()) == hipSuccess);
  REQUIRE(set(pool, hipMemPoolAttrUsedMemHigh, 0) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrUsedMemHigh) ==
        (like_cuda() ? told(pool, hipMemPoolAttrUsedMemCurrent) : 0));
  CHECK(hipFreeAsync(block, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE("pool memory: is counted, and goes back at a wait above the threshold") {
  const own_pool pool;
  const own_stream stream;
  void* block = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&block, 4 << 20, pool.get(), stream.get()) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrUsedMemCurrent) >= 4 << 20);
  CHECK(told(pool, hipMemPoolAttrReservedMemCurrent) >= told(pool, hipMemPoolAttrUsedMemCurrent));
  REQUIRE(hipFreeAsync(block, stream.get()) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrUsedMemCurrent) == 0);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrReservedMemCurrent) == 0);
  CHECK(told(pool, hipMemPoolAttrUsedMemHigh) >= 4 << 20);
}

TEST_CASE("pool memory: is kept up to the threshold, until the pool is trimmed") {
  const own_pool pool;
  REQUIRE(set(pool, hipMemPoolAttrReleaseThreshold, UINT64_MAX) == hipSuccess);
  const own_stream stream;
  void* block = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&block, 4 << 20, pool.get(), stream.get()) == hipSuccess);
  REQUIRE(hipFreeAsync(block, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrReservedMemCurrent) >= 4 << 20);
  REQUIRE(hipMemPoolTrimTo(pool.get(), 0) == hipSuccess);
  CHECK(told(pool, hipMemPoolAttrReservedMemCurrent) == 0);
}

TEST_CASE("pool memory: is freed by hipFree as well, and hipMalloc's by hipFreeAsync") {
  const own_pool pool;
  const own_stream stream;
  void* block = nullptr;
  void* plain = nullptr;
  REQUIRE(hipMallocFromPoolAsync(&block, 4096, pool.get(), stream.get()) == hipSuccess);
  REQUIRE(hipMalloc(&plain, 4096) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  check_rules({
      {"hipFree", [&] { return hipFree(block); }, hipSuccess},
      {"hipFreeAsync", [&] { return hipFreeAsync(plain, stream.get()); }, hipSuccess},
  });
}

TEST_CASE("pool memory: outlives its pool") {
  const own_stream stream;
  void* block = nullptr;
  {
    const own_pool gone;
    REQUIRE(hipMallocFromPoolAsync(&block, 4096, gone.get(), stream.get()) == hipSuccess);
  }
  CHECK(hipMemsetAsync(block, 0x12, 4096, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
  CHECK(byte_at(block) == 0x12);
  CHECK(hipFreeAsync(block, stream.get()) == hipSuccess);
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE("pool: the largest size it was made with is kept") {
  // Newer headers call the first reserved bytes so.
  hipMemPoolProps wanted = props();
  const std::uint64_t limit = std::uint64_t{32} << 20U;
  std::memcpy(reinterpret_cast<char*>(&wanted.win32SecurityAttributes) + sizeof(void*), &limit,
              sizeof(limit));
  const own_pool pool{wanted};
  const own_stream stream;
  void* block = nullptr;
  check_rules({
      {"more", [&] { return hipMallocFromPoolAsync(&block, 2 * limit, pool.get(), stream.get()); },
       hipErrorOutOfMemory},
      {"less",
       [&] {
         const hipError_t code =
             hipMallocFromPoolAsync(&block, limit / 4, pool.get(), stream.get());
         return code == hipSuccess ? hipFreeAsync(block, stream.get()) : code;
       },
       hipSuccess},
  });
  REQUIRE(hipStreamSynchronize(stream.get()) == hipSuccess);
}

TEST_CASE("pool access: its arguments") {
  const own_pool pool;
  hipMemAccessFlags flags{};
  hipMemLocation here{hipMemLocationTypeDevice, 0};
  hipMemLocation nowhere{hipMemLocationTypeDevice, no_device};
  hipMemLocation no_kind{no_such<hipMemLocationType>(0), 0};
  check_rules({
      {"read and write", [&] { return allow(pool, 0, 3); }, hipSuccess},
      {"own, read only", [&] { return allow(pool, 0, 1); }, hipErrorNotSupported},
      {"own, none", [&] { return allow(pool, 0, 0); }, hipErrorInvalidDevice},
      {"write only", [&] { return allow(pool, 0, 2); }},
      {"no such device", [&] { return allow(pool, no_device, 3); }, hipErrorInvalidDevice},
      {"more entries than devices", [&] { return allow(pool, 0, 3, 1000); }, hipErrorInvalidDevice},
      {"no entries", [&] { return hipMemPoolSetAccess(pool.get(), nullptr, 1); }},
      {"ask", [&] { return hipMemPoolGetAccess(&flags, pool.get(), &here); }, hipSuccess},
      {"ask for no such device", [&] { return hipMemPoolGetAccess(&flags, pool.get(), &nowhere); }},
      {"ask for no kind of place",
       [&] { return hipMemPoolGetAccess(&flags, pool.get(), &no_kind); }},
  });
  CHECK(flags == hipMemAccessFlagsProtReadWrite);
}

TEST_CASE("pool access: of a peer is granted and taken back") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const own_pool pool;
  hipMemLocation there{hipMemLocationTypeDevice, peer.ordinal()};
  hipMemAccessFlags flags{};
  REQUIRE(hipMemPoolGetAccess(&flags, pool.get(), &there) == hipSuccess);
  CHECK(flags == hipMemAccessFlagsProtNone);
  check_rules({
      {"grant", [&] { return allow(pool, peer.ordinal(), 3); }, hipSuccess},
      {"take back", [&] { return allow(pool, peer.ordinal(), 0); }, hipSuccess},
      {"read only",
       [&] { return allow(pool, peer.ordinal(), 1); },
       {hipSuccess, hipErrorNotSupported}},
  });
}

TEST_CASE("pool: one of another device is not made current") {
  HIPVMM_REQUIRE_DEVICE(peer, peer_of(first_device), "device with a peer");
  const own_pool pool{props(peer.ordinal())};
  check_rules({{"set",
                [&] { return hipDeviceSetMemPool(0, pool.get()); },
                {hipErrorInvalidDevice, hipErrorInvalidValue}}});
}

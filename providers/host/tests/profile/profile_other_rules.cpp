// SPDX-License-Identifier: MIT
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "core/hip_compat.hpp"
#include "profile_rules.hpp"
#include "providers/host/tests/pool/mem_pool_fixtures.hpp"

namespace hipvmm::test {
namespace {

constexpr hipError_t good = hipSuccess;
constexpr hipError_t value = hipErrorInvalidValue;
constexpr hipError_t memory_out = hipErrorOutOfMemory;
constexpr hipError_t device = hipErrorInvalidDevice;
constexpr hipError_t unsupported = hipErrorNotSupported;
constexpr hipError_t handle = hipErrorInvalidHandle;
constexpr hipError_t context = hipErrorContextIsDestroyed;

constexpr auto posix = hipMemHandleTypePosixFileDescriptor;
constexpr std::uint64_t everything = ~std::uint64_t{0};

int attribute(hipDeviceAttribute_t which) {
  int answer = no_answer;
  REQUIRE(hipDeviceGetAttribute(&answer, which, 0) == hipSuccess);
  return answer;
}

/// Packages of one release differ in it.
int without_patch(int version) { return version < 100000 ? version : version / 100000 * 100000; }

hipMemPoolProps limited_to(std::uint64_t bytes) {
  hipMemPoolProps properties = pool_on(0);
  std::memcpy(reinterpret_cast<char*>(&properties) +
                  offsetof(hipMemPoolProps, win32SecurityAttributes) + sizeof(void*),
              &bytes, sizeof(bytes));
  return properties;
}

std::uint64_t reserved(const pool& of) { return of.count(hipMemPoolAttrReservedMemCurrent); }

int exported(const pool& of) {
  int descriptor = -1;
  REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, of.get(), posix, 0) == hipSuccess);
  return descriptor;
}

/// The kernel of the system reads the byte in this process's name: it reports a fault without a
/// signal.
bool host_may_read(const void* byte) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const bool read = ::write(ends[1], byte, 1) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  return read;
}

class low_page {
 public:
  low_page()
      : start_{::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0)} {
    REQUIRE(start_ != MAP_FAILED);
  }
  low_page& operator=(low_page&&) = delete;
  ~low_page() { ::munmap(start_, size); }

  [[nodiscard]] int* number() const { return static_cast<int*>(start_); }

 private:
  static constexpr std::size_t size = 4096;
  void* start_;
};

void* by_value(int descriptor) { return as_handle<void*>(static_cast<std::uintptr_t>(descriptor)); }

int give(const pool& to, int user, hipMemAccessFlags flags) {
  const hipMemAccessDesc wanted = access_of(user, flags);
  return hipMemPoolSetAccess(to.get(), &wanted, 1);
}

int pool_access(const pool& of, int user) {
  hipMemLocation place{hipMemLocationTypeDevice, user};
  hipMemAccessFlags flags{};
  REQUIRE(hipMemPoolGetAccess(&flags, of.get(), &place) == hipSuccess);
  return flags;
}

// The device of a pool is the one whose current pool it could be, were it not imported.
int device_of_imported(hipMemPool_t imported) {
  for (int id = 0; id < 3; ++id) {
    if (hipDeviceSetMemPool(id, imported) != hipErrorInvalidDevice) return id;
  }
  return no_answer;
}

const rule rules[] = {
    {"hipRuntimeGetVersion",
     [] {
       int version = 0;
       REQUIRE(hipRuntimeGetVersion(&version) == hipSuccess);
       return without_patch(version);
     },
     {release_of_headers, 50700000, 60200000, 60400000, 70100000, 70200000, 71400000, 13000},
     "the releases themselves"},
    {"hipDriverGetVersion",
     [] {
       int version = 0;
       REQUIRE(hipDriverGetVersion(&version) == hipSuccess);
       return without_patch(version);
     },
     {release_of_headers, 50700000, 60200000, 60400000, 70100000, 70200000, 71400000, 13000},
     "the releases themselves"},
    {"the last error after a failure and a success",
     [] {
       int count = 0;
       REQUIRE(hipGetDeviceCount(nullptr) == hipErrorInvalidValue);
       REQUIRE(hipGetDeviceCount(&count) == hipSuccess);
       return int{hipGetLastError()};
     },
     {value, good, good, good, value, value, value, value},
     "AMD from 7.0; CUDA"},
    {"the last error after a failure and work that is not ready",
     [] {
       const stream work;
       const held_streams held;
       REQUIRE(hipLaunchHostFunc(
                   work.get(), [](void*) {}, nullptr) == hipSuccess);
       REQUIRE(hipGetDeviceCount(nullptr) == hipErrorInvalidValue);
       REQUIRE(hipStreamQuery(work.get()) == hipErrorNotReady);
       return int{hipGetLastError()};
     },
     {value, hipErrorNotReady, hipErrorNotReady, hipErrorNotReady, value, value, value, value},
     "AMD from 7.0; CUDA"},
    {"virtual memory management is supported (1)",
     [] { return attribute(hip_compat::virtual_memory_management_supported); },
     {1, 0, 1, 1, 1, 1, 1, 1},
     "ROCm/clr 5.7.1: works on Windows only"},
    {"memory pools are supported (1)",
     [] { return attribute(hipDeviceAttributeMemoryPoolsSupported); },
     {1, 0, 1, 1, 1, 1, 1, 1},
     "ROCm/clr 5.7.1, flags.hpp"},
    {"the rank of a link",
     [] {
       int rank = no_answer;
       REQUIRE(hipDeviceGetP2PAttribute(&rank, hipDevP2PAttrPerformanceRank, 0, 1) == hipSuccess);
       return rank;
     },
     {2, 2, 2, 2, 2, 2, 2, 0},
     "AMD; CUDA '0 the best'",
     decided_by::hardware},
    {"the type of a link and its hops",
     [] {
       std::uint32_t type = 77;
       std::uint32_t hops = 77;
       return int{hipExtGetLinkTypeAndHopCount(0, 1, &type, &hops)};
     },
     {good, good, good, good, good, good, good, unsupported},
     "AMD's own function; own for CUDA, which has none"},
    {"hipDeviceCanAccessPeer of a device that does not exist with itself",
     [] {
       int answer = no_answer;
       return int{hipDeviceCanAccessPeer(&answer, 9, 9)};
     },
     {device, good, good, good, good, good, good, device},
     "ROCm/clr"},
    {"hipDeviceDisablePeerAccess of a device without a link",
     [] { return int{hipDeviceDisablePeerAccess(2)}; },
     {hipErrorPeerAccessNotEnabled, device, device, device, device, device, device,
      hipErrorPeerAccessNotEnabled},
     "ROCm/clr 5.7.1, 6.4.3"},
    {"hipMallocAsync in a stream that does not exist",
     [] {
       void* pointer = nullptr;
       return int{hipMallocAsync(&pointer, 1, as_handle<hipStream_t>(0x1230))};
     },
     {handle, value, handle, handle, handle, crashes, handle, handle},
     "ROCm/clr 5.7.1, 7.2.4"},
    {"hipMemPrefetchAsync in a stream that does not exist",
     [] {
       void* pointer = nullptr;
       REQUIRE(hipMallocManaged(&pointer, 4096, hipMemAttachGlobal) == hipSuccess);
       return int{hipMemPrefetchAsync(pointer, 4096, 0, as_handle<hipStream_t>(0x1230))};
     },
     {handle, context, context, context, context, crashes, context, handle},
     "ROCm/clr 6.4.3, hip_hmm.cpp; 7.2.4"},
    {"hipFreeAsync of null",
     [] { return int{hipFreeAsync(nullptr, nullptr)}; },
     {value, value, value, value, good, good, good, value},
     "ROCm/clr 6.4.3, rocm-systems"},
    {"MiB that hipMemPoolTrimTo(4 MiB) leaves of 4 in use and 4 idle",
     [] {
       const pool memory;
       memory.set(hipMemPoolAttrReleaseThreshold, everything);
       void* const used = memory.allocate(4 * mib, nullptr);
       free_in(memory.allocate(4 * mib, nullptr), nullptr);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       REQUIRE(hipMemPoolTrimTo(memory.get(), 4 * mib) == hipSuccess);
       const auto left = static_cast<int>(reserved(memory) / mib);
       free_in(used, nullptr);
       return left;
     },
     {4, 8, 8, 8, 8, 32, 8, 4},
     "ROCm/clr; CUDA"},
    {"a pool that is mostly idle keeps what its threshold says (1)",
     [] {
       const pool memory;
       memory.set(hipMemPoolAttrReleaseThreshold, everything);
       void* const large = memory.allocate(4 * mib, nullptr);
       void* const small = memory.allocate(mib, nullptr);
       free_in(large, nullptr);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       free_in(small, nullptr);
       return reserved(memory) == 5 * mib ? 1 : 0;
     },
     {1, 1, 0, 0, 0, 0, 0, 1},
     "ROCm/clr 6.2.0; ROCm/rocm-systems#11690"},
    {"the stream of the allocation gets a block at once that another stream has yet to free (1)",
     [] {
       const pool memory;
       memory.allow_only(
           {hipMemPoolReuseFollowEventDependencies, hipMemPoolReuseAllowOpportunistic});
       const stream first;
       const stream second;
       std::byte* const block = memory.allocate(mib, first.get());
       roadblock ahead{second.get()};
       const unordered_on_purpose asks_who_waits;
       free_in(block, second.get());
       std::byte* const next = memory.allocate(mib, first.get());
       ahead.open();
       free_in(next, first.get());
       return next == block ? 1 : 0;
     },
     {0, 1, 1, 1, 1, 1, 1, 0},
     "AMD 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"hipFreeAsync of a block that was lent before its earlier free has passed returns at once (1)",
     [] {
       const pool memory;
       const stream work;
       roadblock ahead{work.get()};
       std::byte* const block = memory.allocate(mib, work.get());
       free_in(block, work.get());
       REQUIRE(memory.allocate(mib, work.get()) == block);
       std::future<void> freed =
           std::async(std::launch::async, [&] { free_in(block, work.get()); });
       const auto state = freed.wait_for(std::chrono::milliseconds{100});
       ahead.open();
       freed.get();
       return state == std::future_status::ready ? 1 : 0;
     },
     {1, 1, 0, 0, 0, 0, 0, 1},
     "AMD 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"of 2, 1, 1 and 1 MiB of a pool whose largest size is 1 MiB, each behind a trim of those "
     "before "
     "and the last behind a reset of the most reserved bytes, so many are served",
     [] {
       const pool memory{limited_to(mib)};
       int served = 0;
       for (const std::size_t bytes : {2 * mib, mib, mib, mib}) {
         void* pointer = nullptr;
         if (hipMallocFromPoolAsync(&pointer, bytes, memory.get(), nullptr) == hipSuccess) {
           ++served;
           free_in(pointer, nullptr);
           REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
           REQUIRE(hipMemPoolTrimTo(memory.get(), 0) == hipSuccess);
           continue;
         }
         std::uint64_t none = 0;
         if (served != 0) memory.set(hipMemPoolAttrReservedMemHigh, none);
       }
       return served;
     },
     {3, 4, 2, 2, 2, 2, 2, 3},
     "AMD 6.4.3 and 7.2.4 on a stand-in for ROCr"},
    {"a pool's second export gives the same descriptor (1)",
     [] {
       const pool shared{pool_on(0, posix)};
       return exported(shared) == exported(shared) ? 1 : 0;
     },
     {0, 1, 1, 1, 1, 1, 1, 0},
     "ROCm/clr"},
    {"hipMemPoolImportFromShareableHandle of a descriptor by address",
     [] {
       const pool shared{pool_on(0, posix)};
       // The lower half of its address is no descriptor, and positive.
       const low_page page;
       *page.number() = exported(shared);
       hipMemPool_t imported = nullptr;
       return int{hipMemPoolImportFromShareableHandle(&imported, page.number(), posix, 0)};
     },
     {good, crashes, crashes, crashes, crashes, crashes, crashes, value},
     "ROCm/clr; CUDA"},
    {"the device of a pool imported from device 1 while device 2 is current",
     [] {
       const pool shared{pool_on(1, posix)};
       REQUIRE(hipSetDevice(2) == hipSuccess);
       hipMemPool_t imported = nullptr;
       REQUIRE(hipMemPoolImportFromShareableHandle(&imported, by_value(exported(shared)), posix,
                                                   0) == hipSuccess);
       return device_of_imported(imported);
     },
     {1, 0, 0, 0, 0, 0, 2, no_answer},
     "ROCm/rocm-systems#5522, #5535"},  // CUDA refuses all alike
    {"rights of device 0 to a pool of device 1 that was imported after it got them",
     [] {
       const pool shared{pool_on(1, posix)};
       REQUIRE(give(shared, 0, hipMemAccessFlagsProtReadWrite) == hipSuccess);
       hipMemPool_t imported = nullptr;
       REQUIRE(hipMemPoolImportFromShareableHandle(&imported, by_value(exported(shared)), posix,
                                                   0) == hipSuccess);
       hipMemLocation place{hipMemLocationTypeDevice, 0};
       hipMemAccessFlags flags{};
       REQUIRE(hipMemPoolGetAccess(&flags, imported, &place) == hipSuccess);
       return int{flags};
     },
     {3, 3, 3, 3, 3, 3, 3, 0},
     "AMD; CUDA"},
    {"hipMallocFromPoolAsync from an imported pool",
     [] {
       const pool shared{pool_on(0, posix)};
       hipMemPool_t imported = nullptr;
       REQUIRE(hipMemPoolImportFromShareableHandle(&imported, by_value(exported(shared)), posix,
                                                   0) == hipSuccess);
       void* pointer = nullptr;
       const int code = hipMallocFromPoolAsync(&pointer, 4096, imported, nullptr);
       if (code == good) free_in(pointer, nullptr);
       return code;
     },
     {good, good, good, good, good, good, good, value},
     "AMD; CUDA"},
    {"taking a right to a pool away",
     [] {
       const pool memory;
       REQUIRE(give(memory, 1, hipMemAccessFlagsProtReadWrite) == hipSuccess);
       return give(memory, 1, hipMemAccessFlagsProtNone);
     },
     {good, good, device, device, good, device, good, good},
     "ROCm/clr 5.7.1, 6.4.3, 7.2.4, rocm-systems"},
    {"use of a pool's memory by a device whose right was taken away",
     [] {
       const pool memory;
       REQUIRE(give(memory, 1, hipMemAccessFlagsProtReadWrite) == hipSuccess);
       static_cast<void>(give(memory, 1, hipMemAccessFlagsProtNone));
       std::byte* const block = memory.allocate(4096, nullptr);
       REQUIRE(hipStreamSynchronize(nullptr) == hipSuccess);
       const stream other{hipStreamNonBlocking, 1};
       const int code = hipMemsetAsync(block, 1, 4096, other.get());
       REQUIRE(other.wait() == hipSuccess);
       free_in(block, nullptr);
       return code;
     },
     {value, good, good, good, good, good, good, value},
     "ROCm/clr"},
    {"read-only access for a pool's own device",
     [] {
       const pool memory;
       return give(memory, 0, hipMemAccessFlagsProtRead);
     },
     {unsupported, good, good, good, unsupported, good, unsupported, unsupported},
     "ROCm/clr 6.4.3, 7.2.4"},
    {"read-only access to a pool for a peer",
     [] {
       const pool memory;
       return give(memory, 1, hipMemAccessFlagsProtRead);
     },
     {good, good, good, good, good, good, good, unsupported},
     "H200"},
    {"hipDeviceSetMemPool of a pool of another device",
     [] {
       const pool memory{pool_on(1)};
       return int{hipDeviceSetMemPool(0, memory.get())};
     },
     {device, device, device, device, device, device, device, value},
     "H200"},
    {"MiB of a pool's high mark that was reset while 1 was in use",
     [] {
       const pool memory;
       void* const used = memory.allocate(mib, nullptr);
       memory.set(hipMemPoolAttrUsedMemHigh, 0);
       const auto told = static_cast<int>(memory.count(hipMemPoolAttrUsedMemHigh) / mib);
       free_in(used, nullptr);
       return told;
     },
     {0, 0, 0, 0, 0, 0, 0, 1},
     "H200"},
    {"the flags told of pinned memory that was made without",
     [] {
       void* pointer = nullptr;
       unsigned flags = 99;
       REQUIRE(hipHostMalloc(&pointer, 64, 0) == hipSuccess);
       REQUIRE(hipHostGetFlags(&flags, pointer) == hipSuccess);
       REQUIRE(hipHostFree(pointer) == hipSuccess);
       return static_cast<int>(flags);
     },
     {0, 0, 0, 0, 0, 0, 0, hipHostMallocMapped},
     "H200"},
    {"hipIpcGetMemHandle inside an allocation",
     [] {
       void* pointer = nullptr;
       hipIpcMemHandle_t exported{};
       REQUIRE(hipMalloc(&pointer, 8192) == hipSuccess);
       const int code = hipIpcGetMemHandle(&exported, static_cast<std::byte*>(pointer) + 4096);
       REQUIRE(hipFree(pointer) == hipSuccess);
       return code;
     },
     {value, good, good, good, good, good, good, good},
     "ROCm/clr 6.4.3; H200; ROCr 7.2.4 of Debian ends the process by an assertion",
     decided_by::rocr},
    {"rights to a pool that stay when the second of two entries is refused",
     [] {
       const pool memory;
       const hipMemAccessDesc wanted[] = {access_of(1), access_of(9)};
       REQUIRE(hipMemPoolSetAccess(memory.get(), wanted, 2) != hipSuccess);
       return pool_access(memory, 1);
     },
     {0, 3, 3, 3, 0, 3, 0, 0},
     "ROCm/clr 6.4.3, 7.2.4"},
    {"hipMemPoolSetAccess for a device that does not exist",
     [] {
       const pool memory;
       return give(memory, 9, hipMemAccessFlagsProtReadWrite);
     },
     {device, value, device, device, device, device, device, device},
     "ROCm/clr 5.7.1"},
    {"a stream gets its 8 MiB again for 1 MiB (1)",
     [] {
       const pool memory;
       const stream work;
       std::byte* const large = memory.allocate(8 * mib, work.get());
       roadblock block{work.get()};
       free_in(large, work.get());
       std::byte* const small = memory.allocate(mib, work.get());
       // AMD's runtime lets no block go again before its earlier free is done.
       block.open();
       free_in(small, work.get());
       REQUIRE(work.wait() == hipSuccess);
       return small == large ? 1 : 0;
     },
     {0, 0, 1, 1, 0, 0, 0, 0},
     "ROCm/clr 5.7.1, 6.2.0"},
    {"a full pool whose idle memory another stream has yet to free",
     [] {
       const pool memory{limited_to(4 * mib)};
       memory.allow_only({hipMemPoolReuseAllowInternalDependencies});
       const stream first;
       const stream second;
       roadblock block{first.get()};
       free_in(memory.allocate(4 * mib, first.get()), first.get());
       void* again = nullptr;
       const int code = hipMallocFromPoolAsync(&again, 4 * mib, memory.get(), second.get());
       if (code == good) free_in(again, second.get());
       block.open();
       REQUIRE(second.wait() == hipSuccess);
       return code;
     },
     {good, good, memory_out, memory_out, memory_out, memory_out, memory_out, good},
     "ROCm/clr"},
    {"hipMemCreate on the second node of the host",
     [] {
       hipMemAllocationProp wanted = chunk_on(0);
       wanted.location = {not_an_enumerator<hipMemLocationType>(hip_compat::host_node_location), 1};
       hipMemGenericAllocationHandle_t made = nullptr;
       const hipError_t code = hipMemCreate(&made, granule, &wanted, 0);
       if (code == hipSuccess) REQUIRE(hipMemRelease(made) == hipSuccess);
       return int{code};
     },
     {value, value, value, value, value, value, value, good},
     "ROCm/rocm-systems#8058; CUDA",
     decided_by::rocr},
    {"hipMemPoolExportPointer of an unknown address",
     [] {
       int elsewhere = 0;
       hipMemPoolPtrExportData data{};
       return int{hipMemPoolExportPointer(&data, &elsewhere)};
     },
     {value, memory_out, memory_out, memory_out, memory_out, memory_out, memory_out, value},
     "ROCm/clr"},
    {"bytes that host code may read (1) of a chunk that its device alone was granted",
     [] {
       const mapped memory{granule};
       return host_may_read(memory.at()) ? 1 : 0;
     },
     {1, no_answer, 0, 0, 0, 0, 0, 0},
     "ROCr, MappedHandleAllowedAgent::EnableAccess; CUDA",
     decided_by::rocr},
};

}  // namespace

std::span<const rule> other_rules() { return rules; }

}  // namespace hipvmm::test

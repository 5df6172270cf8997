// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "core/hip_compat.hpp"
#include "profile_rules.hpp"
#include "providers/host/tests/fixtures.hpp"

// Objects left behind end with the process: under some profiles they could not be released.
namespace hipvmm::test {
namespace {

using handle = hipMemGenericAllocationHandle_t;

constexpr hipError_t good = hipSuccess;
constexpr hipError_t value = hipErrorInvalidValue;
constexpr hipError_t memory_out = hipErrorOutOfMemory;
constexpr hipError_t device = hipErrorInvalidDevice;
constexpr hipError_t unsupported = hipErrorNotSupported;
constexpr hipError_t unknown = hipErrorUnknown;
constexpr hipError_t illegal = hipErrorIllegalState;
constexpr int nothing = no_answer;

constexpr auto posix = hipMemHandleTypePosixFileDescriptor;
constexpr unsigned long long flags_unset = 77;

std::byte* reserve(std::size_t bytes, std::size_t alignment = 0) {
  void* start = nullptr;
  REQUIRE(hipMemAddressReserve(&start, bytes, alignment, nullptr, 0) == hipSuccess);
  return static_cast<std::byte*>(start);
}

hipMemAllocationProp host_properties(hipMemAllocationHandleType type = hipMemHandleTypeNone) {
  hipMemAllocationProp properties = chunk_on(0, type);
  properties.location.type = not_an_enumerator<hipMemLocationType>(hip_compat::host_location);
  return properties;
}

handle create(const hipMemAllocationProp& properties, std::size_t bytes = granule) {
  handle made = nullptr;
  REQUIRE(hipMemCreate(&made, bytes, &properties, 0) == hipSuccess);
  return made;
}

int create_code(const hipMemAllocationProp& properties) {
  handle made = nullptr;
  return hipMemCreate(&made, granule, &properties, 0);
}

/// Memory mapped at `count` neighbouring granules; the chunks live in the mappings alone.
std::byte* mapped_run(std::size_t count) {
  std::byte* const start = reserve(count * granule);
  for (std::size_t i = 0; i < count; ++i) {
    const handle chunk = create(chunk_on(0));
    REQUIRE(hipMemMap(start + i * granule, granule, 0, chunk, 0) == hipSuccess);
    REQUIRE(hipMemRelease(chunk) == hipSuccess);
  }
  return start;
}

int give(void* start, std::size_t bytes, const hipMemAccessDesc& wanted) {
  return hipMemSetAccess(start, bytes, &wanted, 1);
}

/// How many of the `count` mappings that mapped_run made are left.
int mappings_of_run(std::byte* start, std::size_t count) {
  int left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const hipMemLocation place{hipMemLocationTypeDevice, 0};
    unsigned long long flags = 0;
    if (hipMemGetAccess(&flags, &place, start + i * granule) == hipSuccess) ++left;
  }
  return left;
}

/// In device 0, without the memory that a runtime has taken for itself.
std::size_t granules_in_use() { return (hipvmm_host_device_bytes(0) + granule / 2) / granule; }

int granularity_kib(hipMemAllocationGranularity_flags option) {
  const hipMemAllocationProp properties = chunk_on(0);
  std::size_t bytes = 0;
  REQUIRE(hipMemGetAllocationGranularity(&bytes, &properties, option) == hipSuccess);
  return static_cast<int>(bytes >> 10U);
}

int exported(int owner = 0) {
  int descriptor = -1;
  const handle chunk = create(chunk_on(owner, posix));
  REQUIRE(hipMemExportToShareableHandle(&descriptor, chunk, posix, 0) == hipSuccess);
  return descriptor;
}

int import_code(void* os_handle) {
  handle imported = nullptr;
  return hipMemImportFromShareableHandle(&imported, os_handle, posix);
}

void* by_value(int descriptor) { return as_handle<void*>(static_cast<std::uintptr_t>(descriptor)); }

/// The answer of `call` in a host function of a stream: hipErrorIllegalState if it would wait.
template <class Call>
int in_host_function(unsigned stream_flags, Call call) {
  struct asked {
    Call call;
    int answer;
  } question{call, no_answer};
  const stream work{stream_flags};
  const auto run = [](void* data) {
    auto& asked_now = *static_cast<asked*>(data);
    asked_now.answer = asked_now.call();
  };
  REQUIRE(hipLaunchHostFunc(work.get(), run, &question) == hipSuccess);
  REQUIRE(work.wait() == hipSuccess);
  return question.answer;
}

const rule rules[] = {
    {"KiB of the minimum granularity",
     [] { return granularity_kib(hipMemAllocationGranularityMinimum); },
     {2048, 0, 4, 4, 4, 4, 4, 2048},
     "ROCm/rocm-systems#9360",
     decided_by::rocr},
    {"KiB of the recommended granularity",
     [] { return granularity_kib(hipMemAllocationGranularityRecommended); },
     {2048, 0, 4, 4, 4, 4, 2048, 2048},
     "ROCm/rocm-systems#9360",
     decided_by::rocr},
    {"hipMemAddressReserve of half a granule",
     [] {
       void* start = nullptr;
       return int{hipMemAddressReserve(&start, 2048, 0, nullptr, 0)};
     },
     {value, good, memory_out, memory_out, value, value, value, value},
     "ROCm/clr 6.4.3"},
    {"hipMemAddressReserve with alignment 3",
     [] {
       void* start = nullptr;
       return int{hipMemAddressReserve(&start, granule, 3, nullptr, 0)};
     },
     {value, good, memory_out, memory_out, value, value, value, value},
     "ROCm/clr 6.4.3"},
    {"hipMemAddressReserve gives addresses (1)",
     [] {
       void* start = nullptr;
       static_cast<void>(hipMemAddressReserve(&start, granule, 0, nullptr, 0));
       return start != nullptr ? 1 : 0;
     },
     {1, 0, 1, 1, 1, 1, 1, 1},
     "ROCm/clr 5.7.1: works on Windows only"},
    {"three reservations all start at their alignment (1) or not (0)",
     [] {
       constexpr std::size_t alignment = std::size_t{1} << 30U;
       int aligned = 1;
       for (int i = 0; i < 3; ++i) {
         if (reinterpret_cast<std::uintptr_t>(reserve(granule, alignment)) % alignment != 0) {
           aligned = 0;
         }
       }
       return aligned;
     },
     {1, nothing, 0, 0, 0, 0, 0, 1},
     "ROCm/clr, rocdevice.cpp"},
    {"hipMemAddressFree with something mapped",
     [] { return int{hipMemAddressFree(mapped_run(1), granule)}; },
     {value, nothing, good, unknown, unknown, unknown, unknown, value},
     "ROCm/clr 6.2, 6.4.3",
     decided_by::rocr},
    {"hipMemAddressFree with another size",
     [] { return int{hipMemAddressFree(reserve(2 * granule), granule)}; },
     {value, nothing, good, good, good, good, good, value},
     "ROCm/clr"},
    {"hipMemAddressFree of what is not reserved",
     [] {
       int elsewhere = 0;
       return int{hipMemAddressFree(&elsewhere, granule)};
     },
     {value, good, crashes, crashes, value, crashes, value, value},
     "ROCm/clr 5.7.1, 6.4.3"},
    {"hipMemCreate on a device that does not exist",
     [] { return create_code(chunk_on(3)); },
     {device, value, value, value, device, device, device, device},
     "ROCm/clr 6.4.3"},
    {"hipMemCreate of uncached memory",
     [] {
       hipMemAllocationProp properties = chunk_on(0);
       properties.type = not_an_enumerator<hipMemAllocationType>(hip_compat::uncached_allocation);
       return create_code(properties);
     },
     {value, value, value, value, good, good, good, value},
     "ROCm/rocm-systems"},
    {"hipMemCreate on the host",
     [] { return create_code(host_properties()); },
     {value, value, value, value, value, good, good, good},
     "ROCm/rocm-systems#682; CUDA"},
    {"hipMemCreate on the host, shareable",
     [] { return create_code(host_properties(posix)); },
     {value, value, value, value, value, good, good, value},
     "ROCm/rocm-systems#682; CUDA"},
    {"hipMemCreate of a shareable chunk",
     [] { return create_code(chunk_on(0, posix)); },
     {good, unsupported, good, good, good, good, good, good},
     "ROCm/clr 5.7.1"},
    {"descriptors that a chunk takes",
     [] {
       create(chunk_on(0));  // the file that all of the device may share is there now
       const auto open = [] {
         int count = 0;
         for (int number = 0; number < 1024; ++number) {
           if (fcntl(number, F_GETFD) != -1) ++count;
         }
         return count;
       };
       const int before = open();
       create(chunk_on(0));
       return open() - before;
     },
     {0, 0, 0, 0, 0, 0, 1, 0},
     "ROCm/rocm-systems#10604",
     decided_by::rocr},
    {"hipMemMap where something is mapped",
     [] { return int{hipMemMap(mapped_run(1), granule, 0, create(chunk_on(0)), 0)}; },
     {value, nothing, good, good, good, good, value, value},
     "ROCm/clr 6.4.3; ROCm/rocm-systems#7685"},
    {"hipMemMap of half a granule",
     [] { return int{hipMemMap(reserve(granule), 2048, 0, create(chunk_on(0)), 0)}; },
     {value, nothing, good, good, good, good, value, unsupported},
     "tests; H200"},
    {"hipMemMap in a host function of a blocking stream",
     [] {
       std::byte* const start = reserve(granule);
       const handle chunk = create(chunk_on(0));
       return in_host_function(hipStreamDefault,
                               [&] { return int{hipMemMap(start, granule, 0, chunk, 0)}; });
     },
     {good, nothing, illegal, illegal, illegal, illegal, good, good},
     "ROCm/rocm-systems#6982"},
    {"hipMemUnmap in a host function of a blocking stream",
     [] {
       std::byte* const start = mapped_run(1);
       return in_host_function(hipStreamDefault, [&] { return int{hipMemUnmap(start, granule)}; });
     },
     {good, nothing, illegal, illegal, illegal, illegal, illegal, good},
     "ROCm/rocm-systems#6982; H200"},
    {"hipMemUnmap in a host function of a non-blocking stream",
     [] {
       std::byte* const start = mapped_run(1);
       return in_host_function(hipStreamNonBlocking,
                               [&] { return int{hipMemUnmap(start, granule)}; });
     },
     {good, nothing, good, good, good, good, illegal, good},
     "ROCm/rocm-systems#6982; H200"},
    {"hipMemUnmap of part of a mapping",
     [] { return int{hipMemUnmap(mapped_run(1), granule / 2)}; },
     {value, nothing, good, good, value, value, value, value},
     "ROCm/clr 6.2 to 6.4"},
    {"hipMemMap of the beginning of a chunk",
     [] {
       return int{hipMemMap(reserve(granule), granule, 0, create(chunk_on(0), 2 * granule), 0)};
     },
     {good, nothing, good, good, good, good, good, unsupported},
     "tests; H200"},
    {"hipMemMap of more than a chunk",
     [] {
       return int{hipMemMap(reserve(2 * granule), 2 * granule, 0, create(chunk_on(0), granule), 0)};
     },
     {value, nothing, good, good, good, good, value, unsupported},
     "tests; H200"},
    {"mappings left of two after hipMemUnmap of all but half of the second",
     [] {
       std::byte* const start = mapped_run(2);
       static_cast<void>(hipMemUnmap(start, granule + granule / 2));
       return mappings_of_run(start, 2);
     },
     {2, nothing, 1, 1, 2, 2, 2, 2},
     "ROCm/ROCR-Runtime#285",
     decided_by::rocr},
    {"hipMemUnmap where nothing is mapped",
     [] { return int{hipMemUnmap(reserve(granule), granule)}; },
     {value, nothing, crashes, crashes, value, value, value, good},
     "ROCm/clr 6.2 to 6.4; H200"},
    {"hipMemUnmap of a mapping and a hole behind it",
     [] {
       std::byte* const start = reserve(2 * granule);
       REQUIRE(hipMemMap(start, granule, 0, create(chunk_on(0)), 0) == hipSuccess);
       return int{hipMemUnmap(start, 2 * granule)};
     },
     {value, nothing, good, good, value, value, value, good},
     "H200"},
    {"mappings left of two after hipMemUnmap of both and the hole between",
     [] {
       std::byte* const start = reserve(3 * granule);
       for (const std::size_t at : {0, 2}) {
         REQUIRE(hipMemMap(start + at * granule, granule, 0, create(chunk_on(0)), 0) == hipSuccess);
       }
       static_cast<void>(hipMemUnmap(start, 3 * granule));
       return mappings_of_run(start, 3);
     },
     {2, nothing, 1, 1, 2, 2, 2, 0},
     "follows from hipMemUnmap of a mapping and a hole",
     decided_by::rocr},
    {"granules that hipMemGetAddressRange tells of one of two mappings",
     [] {
       hipDeviceptr_t base = nullptr;
       size_t bytes = 0;
       REQUIRE(hipMemGetAddressRange(&base, &bytes, mapped_run(2) + granule) == hipSuccess);
       return static_cast<int>(bytes / granule);
     },
     {1, nothing, 1, 1, 1, 1, 1, 2},
     "H200"},
    {"hipMemAddressFree after two mappings went in one call",
     [] {
       std::byte* const start = mapped_run(2);
       REQUIRE(hipMemUnmap(start, 2 * granule) == hipSuccess);
       return int{hipMemAddressFree(start, 2 * granule)};
     },
     {good, nothing, good, unknown, good, good, good, good},
     "ROCm/ROCR-Runtime#285",
     decided_by::rocr},
    {"the same addresses can be reserved after that (1)",
     [] {
       std::byte* const start = mapped_run(2);
       REQUIRE(hipMemUnmap(start, 2 * granule) == hipSuccess);
       static_cast<void>(hipMemAddressFree(start, 2 * granule));
       void* again = nullptr;
       REQUIRE(hipMemAddressReserve(&again, 2 * granule, 0, start, 0) == hipSuccess);
       return again == start ? 1 : 0;
     },
     {1, nothing, 0, 0, 1, 1, 1, 1},
     "ROCm/clr 6.2, 6.4.3",
     decided_by::rocr},
    {"granules still in use after the last unmap",
     [] {
       const std::size_t before = granules_in_use();
       std::byte* const start = mapped_run(1);
       REQUIRE(hipMemUnmap(start, granule) == hipSuccess);
       const std::size_t after = granules_in_use();
       REQUIRE(hipMemAddressFree(start, granule) == hipSuccess);
       CHECK(granules_in_use() == before);
       return static_cast<int>(after - before);
     },
     {0, nothing, 1, 1, 1, 1, 0, 0},
     "ROCm/rocm-systems#4363",
     decided_by::rocr},
    {"hipMemSetAccess of a mapping behind one of another size",
     [] {
       std::byte* const start = reserve(3 * granule);
       REQUIRE(hipMemMap(start, granule, 0, create(chunk_on(0)), 0) == hipSuccess);
       REQUIRE(hipMemMap(start + granule, 2 * granule, 0, create(chunk_on(0), 2 * granule), 0) ==
               hipSuccess);
       return give(start + granule, 2 * granule, access_of(0));
     },
     {good, nothing, good, good, value, value, good, good},
     "hip_vm.cpp of 7.0 to 7.2; ROCm/rocm-systems#2451, #2516, #6977",
     decided_by::chance},
    {"hipMemSetAccess that ends inside a mapping",
     [] { return give(mapped_run(2), granule + 4096, access_of(0)); },
     {value, nothing, good, good, value, value, value, value},
     "ROCm/rocr-runtime 6.x",
     decided_by::rocr},
    {"hipMemSetAccess where nothing is mapped",
     [] {
       int elsewhere = 0;
       return give(&elsewhere, granule, access_of(0));
     },
     {value, good, value, value, value, value, value, value},
     "ROCm/clr 5.7.1: works on Windows only",
     decided_by::rocr},
    {"rights that stay when the second of two entries is refused",
     [] {
       std::byte* const start = mapped_run(1);
       const hipMemAccessDesc wanted[] = {access_of(0), access_of(3)};
       REQUIRE(hipMemSetAccess(start, granule, wanted, 2) == hipErrorInvalidValue);
       return static_cast<int>(access_at(start, 0));
     },
     {0, nothing, 3, 3, 3, 3, 3, 0},
     "ROCm/clr"},
    {"hipMemSetAccess for a device without a link",
     [] { return give(mapped_run(1), granule, access_of(2)); },
     {device, nothing, value, value, value, value, value, device},
     "ROCm/clr",
     decided_by::rocr},
    {"hipMemSetAccess for the host to memory of a device",
     [] {
       hipMemAccessDesc wanted = access_of(0);
       wanted.location = host_properties().location;
       return give(mapped_run(1), granule, wanted);
     },
     {value, nothing, good, good, value, good, good, unsupported},
     "ROCm/rocm-systems#1606; CUDA",
     decided_by::rocr},
    {"hipMemGetAccess where nothing is mapped",
     [] {
       const hipMemLocation place{hipMemLocationTypeDevice, 0};
       unsigned long long flags = flags_unset;
       int elsewhere = 0;
       const int code = hipMemGetAccess(&flags, &place, &elsewhere);
       CHECK(flags == flags_unset);
       return code;
     },
     {value, good, value, value, value, value, value, value},
     "AMD's runtime 5.7.1 on a stand-in for ROCr"},
    {"memory of the host shows the host what a device wrote (1)",
     [] {
       std::byte* const start = reserve(granule);
       const hipMemAllocationProp properties = host_properties();
       handle chunk = nullptr;
       if (hipMemCreate(&chunk, granule, &properties, 0) != hipSuccess) return 0;
       REQUIRE(hipMemMap(start, granule, 0, chunk, 0) == hipSuccess);
       hipMemAccessDesc to_host = access_of(0);
       to_host.location = host_properties().location;
       const hipMemAccessDesc wanted[] = {to_host, access_of(0), access_of(2)};
       if (hipMemSetAccess(start, granule, wanted, 3) != hipSuccess) return 0;
       REQUIRE(fill_and_wait(start, 5, granule) == hipSuccess);
       return start[7] == std::byte{5} ? 1 : 0;
     },
     {0, nothing, 0, 0, 0, 1, 1, 1},
     "ROCm/rocm-systems#682; CUDA",
     decided_by::rocr},
    {"granules that a retained handle keeps in use without addresses",
     [] {
       const std::size_t before = granules_in_use();
       std::byte* const start = mapped_run(1);
       handle again = nullptr;
       REQUIRE(hipMemRetainAllocationHandle(&again, start) == hipSuccess);
       hipMemAllocationProp properties{};
       CHECK(hipMemGetAllocationPropertiesFromHandle(&properties, again) == hipSuccess);
       REQUIRE(hipMemUnmap(start, granule) == hipSuccess);
       REQUIRE(hipMemAddressFree(start, granule) == hipSuccess);
       return static_cast<int>(granules_in_use() - before);
     },
     {1, nothing, 0, 0, 1, 0, 1, 1},
     "ROCm/clr 6.4.3, 7.2.4"},
    {"hipMemRetainAllocationHandle of hipMalloc memory",
     [] {
       const allocation ordinary{granule};
       handle none = nullptr;
       return int{hipMemRetainAllocationHandle(&none, ordinary.at())};
     },
     {value, good, crashes, crashes, value, crashes, value, value},
     "ROCm/clr 5.7.1, 6.4.3, 7.2.4"},
    {"hipMemRelease once too often",
     [] {
       const handle chunk = create(chunk_on(0));
       REQUIRE(hipMemRelease(chunk) == hipSuccess);
       return int{hipMemRelease(chunk)};
     },
     {value, crashes, crashes, crashes, crashes, crashes, crashes, value},
     "ROCm/clr: handles are pointers",
     decided_by::chance},
    {"hipMemExportToShareableHandle to null",
     [] {
       return int{hipMemExportToShareableHandle(nullptr, create(chunk_on(0, posix)), posix, 0)};
     },
     {value, nothing, crashes, crashes, value, value, value, value},
     "ROCm/clr 6.4.3"},
    {"hipMemImportFromShareableHandle of a descriptor by value",
     [] { return import_code(by_value(exported())); },
     {good, nothing, crashes, crashes, good, good, good, good},
     "ROCm/rocm-systems#11020; CUDA"},
    {"hipMemImportFromShareableHandle of a descriptor by address",
     [] {
       int descriptor = exported();
       return import_code(&descriptor);
     },
     {good, nothing, good, good, value, value, value, unknown},
     "ROCm/rocm-systems#11020; CUDA"},
    {"hipMemImportFromShareableHandle of a number that is no descriptor",
     [] { return import_code(by_value(987654)); },
     {value, unsupported, crashes, crashes, value, value, value, unknown},
     "H200"},
    {"hipMemImportFromShareableHandle of descriptor 0",
     [] {
       REQUIRE(::dup2(exported(), 0) == 0);
       return import_code(nullptr);
     },
     {value, nothing, value, value, value, value, value, good},
     "ROCm/clr; CUDA"},
    {"the device of a chunk imported from device 1 while device 0 is current",
     [] {
       int descriptor = exported(1);
       const bool takes_pointer = import_code(&descriptor) == good;
       handle imported = nullptr;
       REQUIRE(hipMemImportFromShareableHandle(
                   &imported, takes_pointer ? &descriptor : by_value(descriptor), posix) == good);
       hipMemAllocationProp properties{};
       REQUIRE(hipMemGetAllocationPropertiesFromHandle(&properties, imported) == good);
       return properties.location.id;
     },
     {1, nothing, 0, 0, 0, 0, 1, 1},
     "ROCm/clr 6.4.3"},
};

}  // namespace

std::span<const rule> virtual_memory_rules() { return rules; }

}  // namespace hipvmm::test

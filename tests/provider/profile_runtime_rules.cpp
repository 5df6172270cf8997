// SPDX-License-Identifier: MIT
#include "mem_pool_fixtures.hpp"
#include "profile_rules.hpp"

// Questions that AMD's runtimes 5.7.1, 6.4.3 and 7.2.4 have answered themselves, on a stand-in for
// ROCr. The columns rocm-6.2, 7.1 and 7.14 follow their neighbours.
namespace hipvmm::test {
namespace {

constexpr int good = hipSuccess;
constexpr int value = hipErrorInvalidValue;

constexpr auto posix = hipMemHandleTypePosixFileDescriptor;

// A descriptor as a program passes it that casts an int's address, or part of an array: the lower
// half is right, and the whole is no address.
void* with_other_bits_above(int descriptor) {
  return as_handle<void*>(std::uintptr_t{0x7f12} << 32U | static_cast<unsigned>(descriptor));
}

const rule rules[] = {
    {"hipMemImportFromShareableHandle of a descriptor with other bits above it",
     [] {
       const memory shared{granule, 0, posix};
       int descriptor = -1;
       REQUIRE(hipMemExportToShareableHandle(&descriptor, shared.get(), posix, 0) == hipSuccess);
       hipMemGenericAllocationHandle_t imported = nullptr;
       return int{
           hipMemImportFromShareableHandle(&imported, with_other_bits_above(descriptor), posix)};
     },
     {value, no_answer, crashes, crashes, good, good, good}},
    {"hipMemPoolImportFromShareableHandle of a descriptor with other bits above it",
     [] {
       const pool shared{pool_on(0, posix)};
       int descriptor = -1;
       REQUIRE(hipMemPoolExportToShareableHandle(&descriptor, shared.get(), posix, 0) ==
               hipSuccess);
       hipMemPool_t imported = nullptr;
       return int{hipMemPoolImportFromShareableHandle(&imported, with_other_bits_above(descriptor),
                                                      posix, 0)};
     },
     {value, good, good, good, good, good, good}},
};

}  // namespace

std::span<const rule> runtime_rules() { return rules; }

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "base/translate.hpp"

#include <fcntl.h>

namespace hipvmm::cuda_provider {
namespace {

// Above every descriptor a process may have, below every address.
constexpr std::uintptr_t descriptor_values_end = std::uintptr_t{1} << 20U;

}  // namespace

CUmemAccess_flags access_of(int flags) {
  switch (flags) {
    case hipMemAccessFlagsProtNone:
      return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case hipMemAccessFlagsProtRead:
      return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case hipMemAccessFlagsProtReadWrite:
      return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

hipMemAccessFlags access_to_hip(unsigned long long flags) {
  switch (flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      return hipMemAccessFlagsProtNone;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return hipMemAccessFlagsProtRead;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      return hipMemAccessFlagsProtReadWrite;
    default:
      throw failure{hipErrorUnknown};
  }
}

CUmemAllocationHandleType handle_type_of(int type, hipError_t unknown) {
  switch (type) {
    case hipMemHandleTypeNone:
      return CU_MEM_HANDLE_TYPE_NONE;
    case hipMemHandleTypePosixFileDescriptor:
      return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    default:
      throw failure{unknown};
  }
}

void* descriptor_from(void* os_handle) {
  require(os_handle != nullptr);
  const auto given = reinterpret_cast<std::uintptr_t>(os_handle);
  if (given < descriptor_values_end) return os_handle;
  // No descriptor, as -1 of a call that failed, and no address of an int.
  require(static_cast<std::intptr_t>(given) > 0 && given % alignof(int) == 0);
  const int value = *static_cast<const int*>(os_handle);
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(value));
}

void close_on_exec(int descriptor) noexcept {
  static_cast<void>(fcntl(descriptor, F_SETFD, FD_CLOEXEC));
}

}  // namespace hipvmm::cuda_provider

// SPDX-License-Identifier: MIT
#include "base/failure.hpp"

#include <cerrno>

namespace hipvmm::host_provider {

hipError_t error_of_errno(int number) noexcept {
  switch (number) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EAGAIN:
      return hipErrorOutOfMemory;
    default:
      return hipErrorOperatingSystem;
  }
}

}  // namespace hipvmm::host_provider

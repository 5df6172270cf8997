// SPDX-License-Identifier: MIT
#pragma once

// NCCL's header or RCCL's. To choose RCCL if both exist, include <rccl/rccl.h> before this.
#if !defined(NCCL_MAJOR)
#if __has_include(<nccl.h>)
#include <nccl.h>
#else
#include <rccl/rccl.h>
#endif
#endif

#include <string>

namespace hipvmm::detail {

/// ncclInProgress, which older headers do not have.
constexpr auto nccl_in_progress = static_cast<ncclResult_t>(7);

inline std::string nccl_version_text(int code) {
  const int scale = code < 10000 ? 10 : 100;  // up to 2.8 the minor has one digit
  const int major = code / (scale * 100);
  return std::to_string(major) + '.' + std::to_string(code / 100 % scale) + '.' +
         std::to_string(code % 100);
}

}  // namespace hipvmm::detail

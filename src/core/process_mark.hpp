// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>
#include <unistd.h>

namespace hipvmm::detail {

/// Part of an object: the process that made it. In a child of fork() HIP does not know what the
/// object owns, and no thread of the library runs: what is owned must be left as it is.
class process_mark {
 public:
  [[nodiscard]] bool is_of_parent() const noexcept { return ::getpid() != made_in_; }

 private:
  const ::pid_t made_in_ = ::getpid();
};

}  // namespace hipvmm::detail

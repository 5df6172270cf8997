// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include "providers/host/tests/fixtures.hpp"

namespace hipvmm::test {

inline constexpr auto posix = hipMemHandleTypePosixFileDescriptor;
/// The number of an inherited descriptor in a child process.
inline constexpr int inherited = 57;

/// A descriptor, closed at the end.
class file {
 public:
  explicit file(int value) : value_{value} { REQUIRE(value >= 0); }
  file& operator=(file&&) = delete;
  ~file() { ::close(value_); }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

inline void* by_value(int descriptor) {
  return as_handle<void*>(static_cast<std::uintptr_t>(descriptor));
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include "fixtures.hpp"

namespace hipvmm::test {

inline constexpr auto posix = hipMemHandleTypePosixFileDescriptor;
/// What a child process finds an inherited descriptor under.
inline constexpr int inherited = 57;

/// A descriptor, closed at the end.
class file {
 public:
  explicit file(int value) : value_{value} { REQUIRE(value >= 0); }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { ::close(value_); }
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

inline void* by_value(int descriptor) {
  return as_handle<void*>(static_cast<std::uintptr_t>(descriptor));
}

/// A chunk's descriptor as the profile takes it: good until the next call.
inline void* to_import(int descriptor) {
  if (!quirks::descriptor_by_address.holds()) return by_value(descriptor);
  static int passed = 0;
  passed = descriptor;
  return &passed;
}

}  // namespace hipvmm::test

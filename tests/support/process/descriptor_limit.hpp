// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace hipvmm::test {

/// The lowest number that is no open descriptor of this process.
inline std::size_t lowest_free_descriptor() {
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(next >= 0);
  ::close(next);
  return static_cast<std::size_t>(next);
}

/// The limit below which `count` numbers are no open descriptor of this process.
inline std::size_t limit_that_leaves(std::size_t count) {
  int number = 0;
  for (; count != 0; ++number)
    if (::fcntl(number, F_GETFD) == -1) --count;
  return static_cast<std::size_t>(number);
}

/// Lowers this process's soft limit of descriptors while it lives.
class descriptor_limit {
 public:
  explicit descriptor_limit(std::size_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit lower = before_;
    lower.rlim_cur = static_cast<rlim_t>(most);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }
  ~descriptor_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  descriptor_limit& operator=(descriptor_limit&&) = delete;

 private:
  rlimit before_{};
};

/// Leaves this process no descriptor to open while it lives.
class no_descriptors_left {
 public:
  no_descriptors_left() {
    // A thread of the library may have closed one since.
    for (int one = 0; (one = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) != -1;)
      taken_.push_back(one);
  }
  ~no_descriptors_left() {
    for (const int each : taken_) ::close(each);
  }
  no_descriptors_left& operator=(no_descriptors_left&&) = delete;

 private:
  descriptor_limit limit_{lowest_free_descriptor()};
  std::vector<int> taken_;
};

}  // namespace hipvmm::test

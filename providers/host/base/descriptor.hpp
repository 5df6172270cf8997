// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <utility>

namespace hipvmm::host_provider {

class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int value) noexcept : value_{value} {}
  descriptor(descriptor&& other) noexcept : value_{std::exchange(other.value_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~descriptor() {
    if (value_ >= 0) ::close(value_);
  }

  [[nodiscard]] int get() const noexcept { return value_; }
  [[nodiscard]] int release() noexcept { return std::exchange(value_, -1); }

 private:
  int value_ = -1;
};

}  // namespace hipvmm::host_provider

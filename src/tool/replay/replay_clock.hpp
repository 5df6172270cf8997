// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace hipvmm::tool {

class stopwatch {
 public:
  [[nodiscard]] std::uint64_t nanoseconds() const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - start_).count());
  }
  [[nodiscard]] double seconds() const { return static_cast<double>(nanoseconds()) / 1e9; }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point start_ = clock::now();
};

}  // namespace hipvmm::tool

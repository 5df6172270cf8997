// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <exception>

namespace hipvmm::provider {

/// Carries a HIP error to the entry point, which returns it.
class failure : public std::exception {
 public:
  explicit failure(hipError_t code) noexcept : code_{code} {}
  [[nodiscard]] hipError_t code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return "a HIP call failed"; }

 private:
  hipError_t code_;
};

inline void require(bool holds, hipError_t code = hipErrorInvalidValue) {
  if (!holds) throw failure{code};
}

}  // namespace hipvmm::provider

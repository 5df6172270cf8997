// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <exception>

namespace hipvmm::provider {

/// Carries a HIP error from deep inside a call to its entry point, which returns it.
class failure : public std::exception {
 public:
  explicit failure(hipError_t code) noexcept : code_{code} {}
  [[nodiscard]] hipError_t code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return "a HIP call failed"; }

 private:
  hipError_t code_;
};

/// Throws `code` unless `holds`: the form every argument rule takes.
inline void require(bool holds, hipError_t code = hipErrorInvalidValue) {
  if (!holds) throw failure{code};
}

}  // namespace hipvmm::provider

// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>

#include "support/host/host_profile.hpp"

namespace hipvmm::test {

/// Which provider this program was built for. AMD's runtime must answer as the host provider
/// does, because that follows AMD's newest release.
inline constexpr bool on_cuda = HIPVMM_TEST_ON_CUDA != 0;

/// Whether CUDA's answers are to come: from the driver, or from the host provider's image of it.
inline bool like_cuda() { return on_cuda || host_profile() == "cuda-13"; }

/// The result of a call: one code for all providers, or one for the host provider and one for CUDA.
class answer {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): most rows have one code
  constexpr answer(hipError_t everywhere) : host_{everywhere}, cuda_{everywhere} {}
  constexpr answer(hipError_t host, hipError_t cuda) : host_{host}, cuda_{cuda} {}
  /// One that the host provider gives in its own way even as CUDA's image.
  static constexpr answer not_imitated(hipError_t host, hipError_t cuda) {
    return on_cuda ? answer{cuda} : answer{host};
  }
  [[nodiscard]] hipError_t here() const { return like_cuda() ? cuda_ : host_; }

 private:
  hipError_t host_;
  hipError_t cuda_;
};

/// One row of a table: a call in words, the call, and its answer if that is another.
struct rule {
  std::string says;
  std::function<hipError_t()> call;
  answer gives = hipErrorInvalidValue;
};

/// Checks each row by itself, so that one run shows every difference.
inline void check_rules(std::initializer_list<rule> rules) {
  for (const rule& each : rules) {
    const hipError_t got = each.call();
    INFO(each.says << ": " << std::string{hipGetErrorName(got)} << ", expected "
                   << std::string{hipGetErrorName(each.gives.here())});
    CHECK(got == each.gives.here());
  }
  static_cast<void>(hipGetLastError());
}

/// An enumerator that no header defines, as a C program may pass one.
template <class Enum>
__attribute__((no_sanitize("enum"))) Enum no_such(int value) {
  static_assert(sizeof(Enum) == sizeof(int));
  Enum made{};
  std::memcpy(&made, &value, sizeof(made));
  return made;
}

}  // namespace hipvmm::test

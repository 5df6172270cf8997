// SPDX-License-Identifier: MIT
#pragma once

namespace hipvmm::test {

/// The rounds of a case that repeats one question with other random numbers or other timing: a
/// tenth with sanitizers, which take ten times as long for each.
constexpr int rounds(int without_sanitizers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return without_sanitizers / 10;
#else
  return without_sanitizers;
#endif
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace hipvmm::test {

inline constexpr std::array<std::string_view, 7> profile_names{
    "strict", "rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.14", "cuda-13"};

/// Answers that are none.
inline constexpr int no_answer = -99;  ///< the question makes no sense under the profile
inline constexpr int crashes = -98;    ///< the provider ends the process instead

/// A question about HIP's behaviour, and what each profile answers: a HIP code unless said
/// otherwise.
struct rule {
  std::string_view question;
  int (*ask)();
  std::array<int, profile_names.size()> answers;
};

std::span<const rule> virtual_memory_rules();
std::span<const rule> other_rules();
std::span<const rule> runtime_rules();

}  // namespace hipvmm::test

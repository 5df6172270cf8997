// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace hipvmm::test {

inline constexpr std::array<std::string_view, 8> profile_names{
    "strict", "rocm-5.7", "rocm-6.2", "rocm-6.4", "rocm-7.1", "rocm-7.2", "rocm-7.14", "cuda-13"};

/// Answers that are none.
inline constexpr int no_answer = -99;  ///< the question makes no sense under the profile
inline constexpr int crashes = -98;    ///< the provider ends the process instead

/// Who decides AMD's answer. tests/provider_amd asks AMD's runtime on a stand-in for ROCr, and only
/// what `user_space` decides must agree there.
enum class decided_by {
  user_space,  ///< AMD's runtime (clr)
  rocr,        ///< ROCr or the kernel driver, in one of the releases at least
  hardware,
  chance,  ///< the order of heap addresses, or memory that was freed
};

/// A question about HIP's behaviour, and what each profile answers: a HIP code unless said
/// otherwise.
struct rule {
  std::string_view question;
  int (*ask)();
  std::array<int, profile_names.size()> answers;
  decided_by who = decided_by::user_space;
};

std::span<const rule> virtual_memory_rules();
std::span<const rule> other_rules();
std::span<const rule> stream_rules();
std::span<const rule> runtime_rules();

inline std::vector<rule> all_rules() {
  std::vector<rule> all;
  for (const auto& part : {virtual_memory_rules(), other_rules(), stream_rules(), runtime_rules()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace hipvmm::test

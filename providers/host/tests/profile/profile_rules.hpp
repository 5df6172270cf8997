// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

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

/// The release of `strict`: that of the HIP headers the provider was built with.
inline constexpr int release_of_headers = HIP_VERSION / 100000 * 100000;

/// The party that decides AMD's answer. tests/provider_amd asks AMD's runtime on a stand-in for
/// ROCr, and only answers of `user_space` must agree there.
enum class decided_by {
  user_space,  ///< AMD's runtime (clr)
  rocr,        ///< ROCr or the kernel driver, in one of the releases at least
  hardware,
  chance,  ///< the order of heap addresses, free addresses, or memory that was freed
};

/// An answer of a profile: a HIP code, or a number as the question says.
class answer {
 public:
  constexpr answer(hipError_t code) noexcept : value_{code}, is_code_{true} {}
  constexpr answer(int number) noexcept : value_{number} {}

  constexpr operator int() const noexcept { return value_; }
  [[nodiscard]] constexpr bool is_code() const noexcept { return is_code_; }

 private:
  int value_;
  bool is_code_ = false;
};

/// A question about HIP's behaviour, and the answers of each profile.
struct rule {
  std::string_view question;
  int (*ask)();
  std::array<answer, profile_names.size()> answers;
  std::string_view source;
  decided_by who = decided_by::user_space;
};

std::span<const rule> virtual_memory_rules();
std::span<const rule> other_rules();
std::span<const rule> stream_rules();
std::span<const rule> runtime_rules();
std::span<const rule> copy_rules();

inline std::vector<rule> all_rules() {
  std::vector<rule> all;
  for (const auto& part :
       {virtual_memory_rules(), other_rules(), stream_rules(), runtime_rules(), copy_rules()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace hipvmm::test

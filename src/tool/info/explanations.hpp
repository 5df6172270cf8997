// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include <hipvmm/capability/capability.hpp>

namespace hipvmm::tool {

/// What a trait is to the user of the library, each a sentence or more.
struct explanation {
  std::string_view meaning;   ///< what a program notices where it is missing
  std::string_view recorded;  ///< releases and reports; they are no measurements of ours
  std::string_view answer;    ///< what hipvmm does where it is missing
};

[[nodiscard]] const explanation& explain(trait which) noexcept;

/// Why the quirk is in force: the name of the trait that is missing, or of the number.
[[nodiscard]] std::string_view cause_of(quirk which) noexcept;

}  // namespace hipvmm::tool

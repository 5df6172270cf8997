// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include <hipvmm/capability/capability.hpp>

namespace hipvmm::tool {

/// The meaning of a trait for the user of the library, each a sentence or more.
struct explanation {
  std::string_view meaning;   ///< the effect on a program
  std::string_view recorded;  ///< releases and reports; they are no measurements of ours
  std::string_view answer;    ///< hipvmm's action without it
};

[[nodiscard]] const explanation& explain(trait which) noexcept;

/// Why the quirk is in force: the name of the trait that is missing, or of the number.
[[nodiscard]] std::string_view cause_of(quirk which) noexcept;

}  // namespace hipvmm::tool

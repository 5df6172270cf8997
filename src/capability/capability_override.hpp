// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "capability/capability.hpp"

namespace hipvmm::detail {

/// The requests of HIPVMM_CAPABILITY.
struct capability_override {
  bool reprobe = false;
  std::vector<std::string> files;
  std::vector<std::string> assumptions;  // key=value

  /// Adds the assumptions to `found`, marked as assumptions.
  void assume(capability::record& found) const;
};

/// Reads HIPVMM_CAPABILITY.
/// Throws: std::invalid_argument, which names the part that is not understood.
capability_override read_capability_override();

}  // namespace hipvmm::detail

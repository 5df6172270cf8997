// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "vmm/capability_record.hpp"

namespace hipvmm::detail {

/// What HIPVMM_CAPABILITY asks for.
struct capability_request {
  bool reprobe = false;
  std::vector<std::string> files;
  std::vector<std::string> assumptions;  // key=value

  /// Puts the assumptions into `found`, which are said to be such.
  void assume(capability::record& found) const;
};

/// Reads HIPVMM_CAPABILITY. Throws: std::invalid_argument naming the part that is not understood.
capability_request read_capability_request();

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hipvmm::detail {

/// The valid name that a caller most likely meant, or "". Ignores leading dashes, case, - and _.
[[nodiscard]] std::string nearest_name(std::string_view wrong,
                                       const std::vector<std::string>& names);

/// The end of a message about `wrong`: "did you mean size?", or "choose one of size, flag or name".
[[nodiscard]] std::string name_advice(std::string_view wrong,
                                      const std::vector<std::string>& names);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace hipvmm::preload {

struct settings {
  std::size_t threshold = 0;                                   ///< smaller requests pass, in bytes
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< larger requests pass, in bytes
  bool free_waits = true;
  /// Freed memory is released after so long without an allocation. Only tests set it.
  std::chrono::milliseconds quiet{1000};
  std::string statistics = {};  ///< a file or "stderr"; empty: none
  std::string json = {};        ///< as `statistics`
};

/// The form of HIPVMM_PRELOAD, docs/guides/preload.md: "threshold=64KiB,statistics=stderr". Throws:
/// std::invalid_argument, as apply_options().
[[nodiscard]] settings parse_settings(std::string_view text);

}  // namespace hipvmm::preload

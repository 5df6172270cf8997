// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace hipvmm::preload {

/// The settings in HIPVMM_PRELOAD, as docs/guides/preload.md describes them.
struct settings {
  std::size_t threshold = 0;                                   ///< smaller requests pass, in bytes
  std::size_t most = std::numeric_limits<std::size_t>::max();  ///< larger ones too
  bool free_waits = true;
  /// A program without an allocation for so long is quiet: its freed memory is released to the
  /// device. For tests: no text sets it.
  std::chrono::milliseconds quiet{1000};
  std::string statistics = {};  ///< a file or "stderr"; empty: none
  std::string json = {};        ///< the same
};

/// Reads "threshold=64KiB,statistics=stderr". Throws: std::invalid_argument, as apply_options().
[[nodiscard]] settings parse_settings(std::string_view text);

}  // namespace hipvmm::preload

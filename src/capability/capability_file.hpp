// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "capability/capability.hpp"

// Records on disk, one file for each fingerprint.
namespace hipvmm::detail {

/// Below $XDG_CACHE_HOME or ~/.cache; empty without either.
std::string cache_path(const std::string& fingerprint);

enum class file_owner {
  cache,  ///< must be the user's own, and writable for nobody else
  named,  ///< HIPVMM_CAPABILITY names it
};

/// Empty if there is no file or the cache's folder is another user's; also, with a warning to the
/// error handler, if it cannot be read, is not trusted, is damaged or is about something else.
std::optional<capability::record> read_record(const std::string& path,
                                              const std::string& fingerprint, file_owner whose);

/// Writes the lasting and dated findings by a rename, so that readers see a whole file. Returns the
/// reason of a failure; empty on success.
std::string write_record(const std::string& path, const capability::record& found);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "vmm/capability_record.hpp"

// Records on disk, one file for each subject.
namespace hipvmm::detail {

/// Where the record about `subject` is kept: below $XDG_CACHE_HOME or ~/.cache; empty without
/// either.
std::string cache_path(const std::string& subject);

/// Whose file a record is read from.
enum class file_owner {
  cache,  ///< must be the user's own, and writable for nobody else
  named,  ///< HIPVMM_CAPABILITY names it
};

/// The findings in the file, about `subject`; nothing where there is no file, and nothing but a
/// warning to the error handler where it cannot be read, is not to be trusted, is damaged or is
/// about something else.
std::optional<capability::record> read_record(const std::string& path, const std::string& subject,
                                              file_owner whose);

/// Writes what is lasting or dated in `found`, by a temporary file and a rename, so that readers
/// see a whole file. Returns why it could not be done; empty where it was.
std::string write_record(const std::string& path, const capability::record& found);

}  // namespace hipvmm::detail

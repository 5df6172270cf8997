// SPDX-License-Identifier: MIT
#include "capability/capability_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "capability/capability_fingerprint.hpp"
#include "capability/capability_text.hpp"
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "core/environment.hpp"
#include "core/write_signals.hpp"

namespace hipvmm::detail {
namespace {

constexpr std::string_view header = "hipvmm capability record, format 2\n";
constexpr std::string_view fingerprint_key = "fingerprint=";
// Before a finding, with the time in seconds until which it holds.
constexpr std::string_view until_mark = "until ";
// A file that was cut off lacks this line.
constexpr std::string_view last_line = "end\n";
constexpr std::size_t most_bytes = 64 * 1024;

std::string error_text() { return std::generic_category().message(errno); }

void require_trusted(const struct stat& file, file_owner whose) {
  if (!S_ISREG(file.st_mode)) throw std::invalid_argument{"it is no regular file"};
  if (static_cast<std::size_t>(file.st_size) > most_bytes)
    throw std::invalid_argument{"it has " + std::to_string(file.st_size) +
                                " bytes, more than any record"};
  if (whose == file_owner::named) return;
  if (file.st_uid != ::geteuid())
    throw std::invalid_argument{"it belongs to user " + std::to_string(file.st_uid) +
                                ", not to this one"};
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw std::invalid_argument{"others may write to it"};
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::invalid_argument{"it cannot be read: " + error_text()};
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > most_bytes) throw std::invalid_argument{"it grows while it is read"};
  }
}

/// Ignores a finding whose time has passed.
void read_dated(std::string_view line, capability::record& found) {
  std::int64_t until = 0;
  const std::string_view text = line.substr(until_mark.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), until);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc{} || digits == text.size() || text[digits] != ' ')
    throw std::invalid_argument{"\"" + std::string{line.substr(0, 200)} +
                                "\" holds until no time in seconds"};
  capability::record dated;
  read_line(text.substr(digits + 1), keys::all, persistence::dated, {}, dated);
  const std::int64_t left = until - seconds_now();
  if (left <= 0 || left > longest_dated) return;
  for (std::size_t i = 0; i < trait_count; ++i)
    if (dated.persistences[i] == persistence::dated)
      found.set_until(static_cast<trait>(i), dated.findings[i], dated.reasons[i], until);
}

capability::record parse(std::string_view text, const std::string& fingerprint) {
  if (!text.starts_with(header))
    throw std::invalid_argument{"it does not begin as records of this release do"};
  if (!text.ends_with(std::string{"\n"}.append(last_line)))
    throw std::invalid_argument{"its end is missing"};
  text.remove_prefix(header.size());
  text.remove_suffix(last_line.size());
  capability::record found;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(fingerprint_key)) {
      found.fingerprint = line.substr(fingerprint_key.size());
      if (found.fingerprint != fingerprint)
        throw std::invalid_argument{"it is about \"" + found.fingerprint + "\", and this is \"" +
                                    fingerprint + "\""};
    } else if (line.starts_with(until_mark)) {
      read_dated(line, found);
    } else {
      read_line(line, keys::all, persistence::lasting, {}, found);
    }
    text.remove_prefix(end + 1);
  }
  if (found.fingerprint.empty()) throw std::invalid_argument{"it does not say what it is about"};
  return found;
}

std::string belongs_to_another(const std::filesystem::path& folder, ::uid_t owner) {
  return folder.string() + " belongs to user " + std::to_string(owner) + ", not to this one, " +
         std::to_string(::geteuid());
}

bool is_for_everybody(const struct stat& folder) {
  return (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
}

/// Empty if this user may make files in the folder: a program that root runs for a user (sudo)
/// would leave files that the user cannot change.
std::string why_not_ours(const std::filesystem::path& folder, const struct stat& found) {
  if (!S_ISDIR(found.st_mode)) return folder.string() + " is no folder";
  if (found.st_uid != ::geteuid() && !is_for_everybody(found))
    return belongs_to_another(folder, found.st_uid);
  // Earlier releases made this user's folders in others'. In root's an administrator made them.
  const std::filesystem::path above = folder.parent_path();
  struct stat around {};
  if (::stat(above.c_str(), &around) != 0 || around.st_uid == ::geteuid() || around.st_uid == 0 ||
      is_for_everybody(around))
    return {};
  return belongs_to_another(above, around.st_uid);
}

bool is_in_foreign_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path{path}.parent_path();
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 && !why_not_ours(folder, found).empty();
}

/// Makes the folder and at most `above` missing ones over it. Returns the reason of a failure;
/// empty on success.
std::string make_folder(const std::filesystem::path& folder, int above) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) == 0) return why_not_ours(folder, found);
  if (errno != ENOENT) return folder.string() + ": " + error_text();
  if (above < 0) return folder.string() + " does not exist";
  std::string why_not = make_folder(folder.parent_path(), above - 1);
  if (!why_not.empty()) return why_not;
  if (::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return folder.string() + ": " + error_text();
}

std::string text_of(const capability::record& found) {
  std::string text{header};
  text.append(fingerprint_key).append(found.fingerprint).append("\n");
  for (std::size_t i = 0; i < trait_count; ++i) {
    if (found.persistences[i] == persistence::dated)
      text.append(until_mark).append(std::to_string(found.until[i])).append(" ");
    if (found.persistences[i] == persistence::dated ||
        found.persistences[i] == persistence::lasting)
      text += line_of(found, static_cast<trait>(i));
  }
  return text.append(number_lines_of(found)).append(last_line);
}

}  // namespace

std::string cache_path(const std::string& fingerprint) {
  std::string folder;
  if (const char* const cache = environment("XDG_CACHE_HOME"); cache && *cache == '/') {
    folder = cache;
  } else if (const char* const home = environment("HOME"); home && *home == '/') {
    folder = std::string{home} + "/.cache";
  } else {
    return {};
  }
  return folder + "/hipvmm/capability-" + hash_of(fingerprint) + ".txt";
}

std::optional<capability::record> read_record(const std::string& path,
                                              const std::string& fingerprint, file_owner whose) {
  // No warning: origin() reports that nothing is kept there.
  if (whose == file_owner::cache && is_in_foreign_folder(path)) return std::nullopt;
  const int no_link = whose == file_owner::cache ? O_NOFOLLOW : 0;
  const file_descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_link)};
  if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  try {
    if (file.get() < 0) throw std::invalid_argument{"it cannot be opened: " + error_text()};
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) throw std::invalid_argument{error_text()};
    require_trusted(about, whose);
    return parse(read_all(file.get()), fingerprint);
  } catch (const std::invalid_argument& error) {
    warn("reading a capability record", path + " is ignored: " + error.what());
    return std::nullopt;
  }
}

std::string write_record(const std::string& path, const capability::record& found) {
  // Makes hipvmm's folder and the cache around it, and nothing above.
  constexpr int cache_folder = 1;
  const std::string no_folder =
      make_folder(std::filesystem::path{path}.parent_path(), cache_folder);
  if (!no_folder.empty()) return "its folder cannot be made: " + no_folder;
  std::string temporary = path + ".XXXXXX";
  const file_descriptor file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.get() < 0) return "a file beside " + path + " cannot be made: " + error_text();
  const without_write_signals failing;
  if (write_all(file.get(), text_of(found)) && ::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  const std::string why = path + " cannot be written: " + error_text();
  ::unlink(temporary.c_str());
  return why;
}

}  // namespace hipvmm::detail

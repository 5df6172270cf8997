// SPDX-License-Identifier: MIT
#include "tool/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "core/descriptors.hpp"

namespace hipvmm::tool {
namespace {

constexpr mode_t new_file_mode = 0666;
constexpr mode_t mode_bits = 0777;

struct place {
  std::string path;
  std::optional<int> descriptor;  ///< of this process, which the path stands for
};

/// The canonical folder with a slash, and the name; without such a folder the path as it is.
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;
  const std::string folder = name == 0 ? "." : path.substr(0, name);
  const std::unique_ptr<char, void (*)(void*)> found{::realpath(folder.c_str(), nullptr),
                                                     std::free};
  if (!found) return {path.substr(0, name), path.substr(name)};
  std::string canonical = found.get();
  if (canonical.back() != '/') canonical += '/';
  return {canonical, path.substr(name)};
}

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

place follow(std::string path) {
  const std::string own_descriptors = split("/proc/self/fd/0").first;
  constexpr int most_links = 40;  // Linux follows as many
  for (int i = 0; i < most_links; ++i) {
    const auto [folder, name] = split(path);
    path = folder + name;
    // A rename must not replace a pipe, or the file of standard output, that these links name.
    if (folder == own_descriptors) return {path, number_in(name)};
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = next.is_absolute() ? next.string() : folder + next.string();
  }
  return {path, std::nullopt};
}

class temporary_beside {
 public:
  explicit temporary_beside(const std::string& target) : target_{target} {
    const std::string prefix =
        target.substr(0, target.rfind('/') + 1) + ".hipvmm-" + std::to_string(::getpid()) + '-';
    for (unsigned i = 0; descriptor_ < 0; ++i) {
      const std::string path = prefix + std::to_string(i);
      // Not by mkstemp: the process's mask and default rights of the folder count for a new result.
      descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new_file_mode);
      if (descriptor_ >= 0) path_ = path;
      if (descriptor_ < 0 && errno != EEXIST) return;
    }
  }
  ~temporary_beside() {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
    errno = error;
  }
  temporary_beside& operator=(temporary_beside&&) = delete;

  [[nodiscard]] bool exists() const noexcept { return descriptor_ >= 0; }

  [[nodiscard]] bool take_rights() {
    struct stat old {
    }, now{};
    if (::stat(target_.c_str(), &old) != 0) return errno == ENOENT;
    if (::fstat(descriptor_, &now) != 0) return false;
    const bool is_owned_alike = now.st_uid == old.st_uid && now.st_gid == old.st_gid;
    return (is_owned_alike || ::fchown(descriptor_, old.st_uid, old.st_gid) == 0) &&
           ::fchmod(descriptor_, old.st_mode & mode_bits) == 0;
  }

  [[nodiscard]] bool write(std::string_view text) {
    // File servers and quotas may refuse written data as late as here.
    return detail::write_all(descriptor_, text) && (::fsync(descriptor_) == 0 || errno == EINVAL) &&
           ::close(std::exchange(descriptor_, -1)) == 0;
  }

  [[nodiscard]] bool take_name() {
    if (::rename(path_.c_str(), target_.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  const std::string& target_;
  std::string path_;
  int descriptor_ = -1;
};

/// Whether the cause may be the file's folder, owner or mount, and not the file itself.
bool is_refusal_to_replace(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

bool overwrite(const std::string& path, std::string_view text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const auto bytes = static_cast<off_t>(text.size());
  // Room first, so that a full disk leaves the old file; not every file system can report it.
  const bool has_room =
      ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, std::max<off_t>(bytes, 1)) == 0 ||
      errno == EOPNOTSUPP;
  const bool written =
      has_room && detail::write_all(descriptor, text) && ::ftruncate(descriptor, bytes) == 0;
  const int error = errno;
  const bool closed = ::close(descriptor) == 0;
  if (!written) errno = error;
  return written && closed;
}

}  // namespace

output_file::output_file(std::string path) : path_{std::move(path)} {
  const place found = follow(path_);
  errno = 0;
  if (found.descriptor) {
    const int flags = ::fcntl(*found.descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) errno = EBADF;
    if (errno == 0) descriptor_ = ::fcntl(*found.descriptor, F_DUPFD_CLOEXEC, 0);
  } else if (struct stat about{}; ::stat(found.path.c_str(), &about) == 0) {
    // Opens it in any case: a rename would replace even a file that this user must not write.
    descriptor_ = ::open(found.path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ >= 0 && S_ISREG(about.st_mode)) {
      ::close(std::exchange(descriptor_, -1));
      target_ = found.path;
    }
  } else if (errno == ENOENT) {
    errno = 0;
    if (const temporary_beside file{found.path}; file.exists()) target_ = found.path;
  }
  if (descriptor_ < 0 && target_.empty())
    throw std::system_error{errno, std::generic_category(), "cannot create '" + path_ + "'"};
}

output_file::~output_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void output_file::write(std::string_view text) {
  errno = 0;
  if (!(target_.empty() ? detail::write_all(descriptor_, text) : replace(text)))
    throw std::system_error{errno, std::generic_category(),
                            "cannot write the result to '" + path_ + "'"};
}

bool output_file::replace(std::string_view text) const {
  temporary_beside file{target_};
  if (file.exists() && file.take_rights()) {
    if (!file.write(text)) return false;
    if (file.take_name()) return true;
  }
  return is_refusal_to_replace(errno) && overwrite(target_, text);
}

namespace {

struct identity {
  std::string name;
  std::optional<int> descriptor;
  std::optional<std::pair<dev_t, ino_t>> inode;  ///< of a regular file or a pipe
  bool is_regular = false;
  std::string missing;  ///< the canonical path if the file does not exist

  [[nodiscard]] bool is_same(const identity& other) const {
    return (descriptor && descriptor == other.descriptor) || (inode && inode == other.inode) ||
           (!missing.empty() && missing == other.missing);
  }
};

identity identity_of(const named_file& file, int standard_stream) {
  const bool is_standard = file.path == "-";
  identity found;
  found.name = file.option + (is_standard ? "" : " '" + file.path + "'");
  place where;
  if (is_standard)
    where.descriptor = standard_stream;
  else
    where = follow(file.path);
  found.descriptor = where.descriptor;
  struct stat about {};
  if ((where.descriptor ? ::fstat(*where.descriptor, &about)
                        : ::stat(where.path.c_str(), &about)) != 0) {
    found.missing = where.path;
    return found;
  }
  found.is_regular = S_ISREG(about.st_mode);
  if (found.is_regular || S_ISFIFO(about.st_mode)) found.inode = {about.st_dev, about.st_ino};
  return found;
}

}  // namespace

std::string clash_of(const std::vector<named_file>& inputs,
                     const std::vector<named_file>& outputs) {
  const auto sentence = [](const identity& output, const identity& other) {
    return output.name + " is the same file as " + other.name + "; name another one";
  };
  const identity standard_output = identity_of({"standard output", "-"}, STDOUT_FILENO);
  std::vector<identity> earlier;
  for (const named_file& each : inputs) earlier.push_back(identity_of(each, STDIN_FILENO));
  for (const identity& input : earlier)
    if (standard_output.is_regular && standard_output.is_same(input))
      return sentence(standard_output, input);
  for (const named_file& each : outputs) {
    const identity output = identity_of(each, STDOUT_FILENO);
    for (const identity& other : earlier)
      if (output.is_same(other)) return sentence(output, other);
    // A name of a descriptor counts as that descriptor.
    if (!output.descriptor && output.is_regular && output.is_same(standard_output))
      return sentence(output, standard_output);
    earlier.push_back(output);
  }
  return {};
}

}  // namespace hipvmm::tool

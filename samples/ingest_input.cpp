// SPDX-License-Identifier: MIT
#include "ingest_input.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace ingest {
namespace {

// Linux moves at most this much in one read; asking for more is refused on some systems.
constexpr std::size_t longest_read = std::size_t{1} << 30;

bool is_standard_input(const std::string& name) { return name == "-"; }

std::string title(const std::string& name) {
  return is_standard_input(name) ? "standard input" : "'" + name + "'";
}

[[noreturn]] void throw_errno(const char* what, const std::string& name) {
  throw std::system_error{errno, std::generic_category(),
                          std::string{"cannot "} + what + " " + title(name)};
}

/// The bytes still to be read from a regular file, none for anything else.
std::optional<std::size_t> known_bytes_of(const std::string& name) {
  struct stat status = {};
  const bool standard = is_standard_input(name);
  if ((standard ? ::fstat(STDIN_FILENO, &status) : ::stat(name.c_str(), &status)) != 0)
    throw_errno("read", name);
  if (S_ISDIR(status.st_mode))
    throw std::invalid_argument{title(name) +
                                " is a directory; name its files, or pipe it in: tar cf - " + name +
                                " | ingest"};
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  const off_t at = standard ? std::max<off_t>(::lseek(STDIN_FILENO, 0, SEEK_CUR), 0) : 0;
  return static_cast<std::size_t>(std::max<off_t>(status.st_size - at, 0));
}

/// One read that gives at least a byte, or zero at the end.
std::size_t read_some(int descriptor, unsigned char* block, std::size_t bytes,
                      const std::string& name) {
  for (;;) {
    const ssize_t got = ::read(descriptor, block, std::min(bytes, longest_read));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) throw_errno("read", name);
    // The process that gave us the descriptor made it non-blocking.
    pollfd ready = {descriptor, POLLIN, 0};
    if (::poll(&ready, 1, -1) < 0 && errno != EINTR) throw_errno("wait for", name);
  }
}

}  // namespace

input::input(std::vector<std::string> names) : names_{std::move(names)}, known_bytes_{0} {
  for (const std::string& name : names_) {
    const std::optional<std::size_t> bytes = known_bytes_of(name);
    known_bytes_ = bytes && known_bytes_ ? std::optional{*known_bytes_ + *bytes} : std::nullopt;
  }
}

input::~input() { close(); }

std::size_t input::read(unsigned char* block, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && (descriptor_ >= 0 || open_next())) {
    const std::size_t got = read_some(descriptor_, block + done, bytes - done, names_[next_ - 1]);
    if (got == 0) close();
    done += got;
  }
  return done;
}

bool input::open_next() {
  if (next_ == names_.size()) return false;
  const std::string& name = names_[next_];
  descriptor_ = is_standard_input(name) ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw_errno("open", name);
  ++next_;
  return true;
}

void input::close() noexcept {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace ingest

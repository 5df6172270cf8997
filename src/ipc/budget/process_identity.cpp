// SPDX-License-Identifier: MIT
#include "ipc/budget/process_identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "ipc/socket.hpp"

namespace hipvmm::detail {
namespace {

// IDs have at most 22 bits. 40 bits of clock ticks are 348 years.
constexpr int id_shift = 40;
constexpr std::uint64_t start_mask = (std::uint64_t{1} << id_shift) - 1;

struct process_facts {
  char state;
  std::uint64_t threads;
  std::uint64_t start;  // in clock ticks after boot
};

enum class presence { there, gone, unknown };

/// Reads /proc/ID/stat, without an allocation.
presence read_facts(::pid_t process, process_facts& into) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%ld/stat", static_cast<long>(process));
  const owned_descriptor file{::open(path.data(), O_RDONLY | O_CLOEXEC)};
  if (file.empty()) return errno == ENOENT ? presence::gone : presence::unknown;
  std::array<char, 1024> text{};
  const ::ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length < 0) return errno == ESRCH ? presence::gone : presence::unknown;
  std::string_view rest{text.data(), static_cast<std::size_t>(length)};
  // The program's name, in parentheses, may have any characters.
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || rest.size() < name_end + 3) return presence::unknown;
  rest.remove_prefix(name_end + 2);
  into.state = rest.front();
  // state is field 3, threads are field 20 and the start is field 22.
  constexpr int first = 3;
  constexpr int threads_field = 20;
  constexpr int start_field = 22;
  for (int field = first; field <= start_field; ++field) {
    const std::size_t end = rest.find(' ');
    if (end == std::string_view::npos) return presence::unknown;
    std::uint64_t* const value = field == threads_field ? &into.threads
                                 : field == start_field ? &into.start
                                                        : nullptr;
    if (value != nullptr &&
        std::from_chars(rest.data(), rest.data() + end, *value).ec != std::errc{})
      return presence::unknown;
    rest.remove_prefix(end + 1);
  }
  return presence::there;
}

process_identity identity_of(::pid_t process, std::uint64_t start) noexcept {
  return static_cast<std::uint64_t>(process) << id_shift | (start & start_mask);
}

}  // namespace

process_identity own_process_identity() {
  process_facts facts{};
  errno = 0;
  if (read_facts(::getpid(), facts) != presence::there)
    throw_system(errno, "read", "/proc/self/stat, which tells processes apart,");
  return identity_of(::getpid(), facts.start);
}

::pid_t process_of(process_identity identity) noexcept {
  return static_cast<::pid_t>(identity >> id_shift);
}

bool is_running(process_identity identity) noexcept {
  const ::pid_t process = process_of(identity);
  if (process <= 0) return false;
  process_facts facts{};
  switch (read_facts(process, facts)) {
    case presence::gone:
      return false;
    case presence::unknown:
      return true;
    case presence::there:
      break;
  }
  if (identity_of(process, facts.start) != identity) return false;
  // Where only the first thread has ended, the state is the same, and others are counted.
  const bool has_ended = facts.state == 'Z' || facts.state == 'X' || facts.state == 'x';
  return !has_ended || facts.threads > 1;
}

std::uint64_t own_pid_namespace() noexcept {
  struct stat about {};
  return ::stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

}  // namespace hipvmm::detail

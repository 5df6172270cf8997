// SPDX-License-Identifier: MIT
#include "ipc/budget/process_identity.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include <hipvmm/ipc/ipc_error.hpp>
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

/// Allocates nothing. Returns false if /proc/ID/stat cannot be read.
bool read_facts(::pid_t process, process_facts& into) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%ld/stat", static_cast<long>(process));
  const owned_descriptor file{::open(path.data(), O_RDONLY | O_CLOEXEC)};
  if (file.empty()) return false;
  std::array<char, 1024> text{};
  const ::ssize_t length = ::read(file.get(), text.data(), text.size());
  if (length < 0) return false;
  std::string_view rest{text.data(), static_cast<std::size_t>(length)};
  // The program's name, in parentheses, may have any characters.
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || rest.size() < name_end + 3) return false;
  rest.remove_prefix(name_end + 2);
  into.state = rest.front();
  constexpr int first = 3;
  constexpr int threads_field = 20;
  constexpr int start_field = 22;
  for (int field = first; field <= start_field; ++field) {
    const std::size_t end = rest.find(' ');
    if (end == std::string_view::npos) return false;
    std::uint64_t* const value = field == threads_field ? &into.threads
                                 : field == start_field ? &into.start
                                                        : nullptr;
    if (value != nullptr &&
        std::from_chars(rest.data(), rest.data() + end, *value).ec != std::errc{})
      return false;
    rest.remove_prefix(end + 1);
  }
  return true;
}

process_identity identity_of(::pid_t process, std::uint64_t start) noexcept {
  return static_cast<std::uint64_t>(process) << id_shift | (start & start_mask);
}

/// Asks the system by another way than /proc, which may hide the process.
bool has_ended(::pid_t process) noexcept {
  const owned_descriptor handle{static_cast<int>(::syscall(SYS_pidfd_open, process, 0))};
  if (!handle.empty()) {
    ::pollfd ending{handle.get(), POLLIN, 0};
    return ::poll(&ending, 1, 0) > 0;  // for a zombie too
  }
  // The ID is a thread's now: EINVAL, since Linux 6.9 ENOENT.
  if (errno == ESRCH || errno == EINVAL || errno == ENOENT) return true;
  // Before Linux 5.3, in some sandboxes, and without a free descriptor.
  return ::kill(process, 0) != 0 && errno == ESRCH;
}

std::uint64_t namespace_of(const char* path) {
  struct stat about {};
  if (::stat(path, &about) != 0) throw_system(errno, "stat", path);
  return about.st_ino;
}

}  // namespace

process_identity own_process_identity() {
  std::array<char, 32> self{};
  if (::readlink("/proc/self", self.data(), self.size() - 1) < 0)
    throw_system(errno, "readlink", "/proc/self");
  if (self.data() != std::to_string(::getpid()))
    throw ipc_error{ipc_failure::refused,
                    "/proc is of another PID namespace, in which this process is " +
                        std::string{self.data()} + " and not " + std::to_string(::getpid()) +
                        ": mount /proc in this one"};
  process_facts facts{};
  errno = 0;
  if (!read_facts(::getpid(), facts))
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
  if (!read_facts(process, facts)) return !has_ended(process);
  if (identity_of(process, facts.start) != identity) return false;
  // If only the first thread has ended, the state is the same, and other threads are counted.
  const bool is_zombie = facts.state == 'Z' || facts.state == 'X' || facts.state == 'x';
  return !is_zombie || facts.threads > 1;
}

process_namespaces own_namespaces() {
  const std::uint64_t pid = namespace_of("/proc/self/ns/pid");
  constexpr const char* time = "/proc/self/ns/time";
  const bool has_time = ::access(time, F_OK) == 0 || errno != ENOENT;
  return {pid, has_time ? namespace_of(time) : 0};
}

}  // namespace hipvmm::detail

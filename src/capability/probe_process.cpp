// SPDX-License-Identifier: MIT
#include "capability/probe_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "core/check.hpp"

extern char** environ;

namespace hipvmm::detail {
namespace {

void require(int error, const char* what) {
  if (error != 0) throw std::system_error{error, std::generic_category(), what};
}

class spawn_actions {
 public:
  spawn_actions() { require(::posix_spawn_file_actions_init(&value_), "posix_spawn"); }
  ~spawn_actions() { ::posix_spawn_file_actions_destroy(&value_); }
  spawn_actions& operator=(spawn_actions&&) = delete;

  void open_nothing(int number, int flags) {
    require(::posix_spawn_file_actions_addopen(&value_, number, "/dev/null", flags, 0),
            "posix_spawn");
  }
  void give(int descriptor, int number) {
    require(::posix_spawn_file_actions_adddup2(&value_, descriptor, number), "posix_spawn");
  }
  void close_from(int number) {
#if __GLIBC_PREREQ(2, 34)
    require(::posix_spawn_file_actions_addclosefrom_np(&value_, number), "posix_spawn");
#else
    static_cast<void>(number);
#endif
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &value_; }

 private:
  posix_spawn_file_actions_t value_{};
};

/// Gives the child the signals that a new program expects, even if the application blocks or
/// ignores some, and a process group of its own, which no terminal signals.
class spawn_attributes {
 public:
  spawn_attributes() {
    require(::posix_spawnattr_init(&value_), "posix_spawn");
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&value_, &none);
    ::posix_spawnattr_setsigdefault(&value_, &all);
    ::posix_spawnattr_setpgroup(&value_, 0);
    ::posix_spawnattr_setflags(
        &value_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~spawn_attributes() { ::posix_spawnattr_destroy(&value_); }
  spawn_attributes& operator=(spawn_attributes&&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const { return &value_; }

 private:
  posix_spawnattr_t value_{};
};

/// This process's environment without libhipvmm_preload.so, because its pool would start a probe.
std::vector<char*> probe_environment() {
  static char off[] = "HIPVMM_PRELOAD=off";
  // A constructor that runs before the program becomes the probe may ask for a probe.
  static char no_other[] = "HIPVMM_PROBE=none";
  std::vector<char*> variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each)
    if (const std::string_view one{*each};
        !one.starts_with("HIPVMM_PRELOAD=") && !one.starts_with("HIPVMM_PROBE="))
      variables.push_back(*each);
  variables.push_back(off);
  variables.push_back(no_other);
  variables.push_back(nullptr);
  return variables;
}

/// Other signals come from people, shells, limits and a system that is short of memory.
bool is_crash(int signal) {
  constexpr std::array crashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  return std::find(crashes.begin(), crashes.end(), signal) != crashes.end();
}

}  // namespace

probe_process::probe_process(const std::string& program,
                             const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& each : arguments) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);

  std::vector<char*> variables = probe_environment();
  std::array<int, 2> ends{};
  require(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  file_descriptor output{ends[0]};
  const file_descriptor writes{ends[1]};
  spawn_actions actions;
  const spawn_attributes attributes;
  actions.give(writes.get(), STDOUT_FILENO);
  actions.open_nothing(STDIN_FILENO, O_RDONLY);
  // The output of a crashing runtime would alarm the user.
  actions.open_nothing(STDERR_FILENO, O_WRONLY);
  actions.close_from(STDERR_FILENO + 1);
  require(::posix_spawn(&process_, program.c_str(), actions.get(), attributes.get(),
                        pointers.data(), variables.data()),
          program.c_str());
  output_ = std::move(output);
}

probe_process::~probe_process() { end(); }

probe_process::reading probe_process::read_line(std::string& line,
                                                std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return reading::line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wanted{output_.get(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready == 0) return reading::late;
    if (ready < 0 && errno == EINTR) continue;
    std::array<char, 4096> piece;
    const ssize_t got = ready < 0 ? -1 : ::read(output_.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    // A line without its end does not count.
    if (got <= 0) {
      at_end_ = true;
      return reading::end;
    }
    buffer_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

probe_process::ending probe_process::end() {
  if (process_ < 0) return {};
  const pid_t process = std::exchange(process_, -1);
  int status = 0;
  // The program's own end may follow that of its output.
  constexpr int own_end_polls = 100;
  constexpr int killed_polls = 1000;
  pid_t reaped = 0;
  for (int poll = 0; poll < own_end_polls + killed_polls && reaped == 0; ++poll) {
    if (poll == own_end_polls || (poll == 0 && !at_end_)) ::kill(process, SIGKILL);
    do {
      reaped = ::waitpid(process, &status, WNOHANG);
    } while (reaped < 0 && errno == EINTR);
    if (reaped == 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  if (reaped == 0) {
    // The process is in a call of the driver that no signal ends; init reaps it later.
    warn("ending hipvmm-probe", "process " + std::to_string(process) +
                                    " hangs in the driver, does not die of SIGKILL and stays");
    return {"hangs in the driver"};
  }
  if (reaped < 0)
    return {
        "ended, nobody knows how, for the application ignores SIGCHLD or waits for all children",
        true};
  return ending_of(status);
}

bool probe_process::sees_ends() noexcept {
  struct sigaction now {};
  return ::sigaction(SIGCHLD, nullptr, &now) != 0 ||
         (now.sa_handler != SIG_IGN && (now.sa_flags & SA_NOCLDWAIT) == 0);
}

probe_process::ending probe_process::ending_of(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool outside = !is_crash(signal);
    return {std::string{outside ? "was ended from outside" : "crashed"} + " by signal " +
                std::to_string(signal) + " (" + ::strsignal(signal) + ")",
            outside};
  }
  return {"ended with status " + std::to_string(WEXITSTATUS(status))};
}

}  // namespace hipvmm::detail

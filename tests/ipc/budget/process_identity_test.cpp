// SPDX-License-Identifier: MIT
// The running processes of a budget, in namespaces and below a /proc that hide them.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "ipc/budget/budget_test.hpp"
#include "support/process/child_case.hpp"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace hipvmm::test {
namespace {

constexpr ::uid_t nobody = 65534;

/// In a child: whether it can be done; else writes why the case is skipped.
bool can(int result, const char* what) {
  if (result == 0) return true;
  std::fprintf(stderr, "skipped: cannot %s here: %s\n", what, std::strerror(errno));
  return false;
}

/// Runs a child, which must pass; prints why it skipped something.
void check_identity_child(const std::string& name) {
  const child_result child = run_child(name);
  CHECK_MESSAGE(passed(child), child.output);
  if (child.output.find("skipped: ") != std::string::npos) MESSAGE(child.output);
}

/// A child of fork() whose identity is known, which pauses until it is killed.
struct paused_process {
  detail::process_identity identity = 0;
  ::pid_t process = 0;

  template <typename Prepare>
  explicit paused_process(Prepare prepare) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process = ::fork();
    if (process == 0) {
      prepare();
      const detail::process_identity self = detail::own_process_identity();
      const ::ssize_t written = ::write(ends[1], &self, sizeof self);
      ::pause();
      ::_exit(written == sizeof self ? 0 : 1);
    }
    ::close(ends[1]);
    REQUIRE(::read(ends[0], &identity, sizeof identity) == sizeof identity);
    ::close(ends[0]);
  }
  void kill_and_wait() {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = 0;
  }
  ~paused_process() {
    if (process > 0) kill_and_wait();
  }
};

TEST_CASE("process_identity: this process runs, one that ended does not, nor does another start") {
  const detail::process_identity self = detail::own_process_identity();
  CHECK(detail::is_running(self));
  CHECK(detail::process_of(self) == ::getpid());
  CHECK_FALSE(detail::is_running(self + 1));
  CHECK_FALSE(detail::is_running(0));
  paused_process ended{[] {}};
  ended.kill_and_wait();
  CHECK_FALSE(detail::is_running(ended.identity));
}

TEST_CASE("process_identity: a process that nobody has waited for does not run") {
  paused_process other{[] {}};
  CHECK(detail::is_running(other.identity));
  ::kill(other.process, SIGKILL);
  CHECK(comes_true([&] { return !detail::is_running(other.identity); }));
  other.kill_and_wait();
  CHECK_FALSE(detail::is_running(other.identity));
}

HIPVMM_CHILD("ends its first thread only") {
  const detail::process_identity self = detail::own_process_identity();
  std::thread{[=] {
    // The first is a zombie after some of these looks.
    const bool runs = !happens([=] { return !detail::is_running(self); });
    ::_exit(runs ? 42 : 1);
  }}.detach();
  // pthread_exit() would unwind the stack, through handlers of all exceptions.
  ::syscall(SYS_exit, 0);
}

TEST_CASE("process_identity: a process runs when only its first thread has ended") {
  CHECK(run_child("ends its first thread only").status == 42);
}

HIPVMM_TEST_CASE_BY(check_identity_child,
                    "process_identity: a process that /proc hides runs until it ends") {
  if (!can(::unshare(CLONE_NEWNS), "enter a mount namespace")) return;
  // In a chroot "/" need not be a mount.
  if (!can(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make mounts private"))
    return;
  if (!can(::mount("proc", "/proc", "proc", 0, "hidepid=2"), "mount /proc")) return;
  REQUIRE(::setresgid(nobody, nobody, nobody) == 0);
  REQUIRE(::setresuid(nobody, nobody, nobody) == 0);
  paused_process other{[] { ::prctl(PR_SET_DUMPABLE, 0); }};
  const std::string entry = "/proc/" + std::to_string(other.process);
  REQUIRE(::access(entry.c_str(), F_OK) != 0);
  CHECK(detail::is_running(other.identity));
  ::kill(other.process, SIGKILL);
  CHECK(comes_true([&] { return !detail::is_running(other.identity); }));
  other.kill_and_wait();
  CHECK_FALSE(detail::is_running(other.identity));
}

HIPVMM_TEST_CASE_BY(check_identity_child,
                    "process_identity: a /proc of another PID namespace is refused") {
  // Twice below this process, because a process whose namespace has ended starts no thread, and
  // LeakSanitizer starts one at its end.
  CHECK(succeeds_in_forked_child([] {
    if (!can(::unshare(CLONE_NEWPID), "enter a PID namespace")) return true;
    return succeeds_in_forked_child([] {
      try {
        static_cast<void>(detail::own_process_identity());
      } catch (const ipc_error& error) {
        return std::string{error.what()}.find("another PID namespace") != std::string::npos;
      }
      return false;
    });
  }));
}

TEST_SUITE_BEGIN("needs virtual memory");

HIPVMM_CHILD("joins a budget of another time namespace") {
  const auto error = thrown_by<ipc_error>([&] {
    const memory_budget budget{first_device, "shared", budget_unit()};
  });
  CHECK(error.reason() == ipc_failure::refused);
  CHECK(std::string{error.what()}.find("another time namespace") != std::string::npos);
}

HIPVMM_CHILD("enters a time namespace") {
  if (!can(::unshare(CLONE_NEWTIME), "make a time namespace")) return;
  std::ofstream{"/proc/self/timens_offsets"} << "boottime 100000 0\nmonotonic 100000 0\n";
  check_identity_child("joins a budget of another time namespace");
}

// The start of each process differs there, and so does the clock of deadlines.
TEST_CASE_FIXTURE(budget_folder, "memory_budget: another time namespace is refused") {
  const memory_budget budget{first_device, "shared", budget_unit()};
  check_identity_child("enters a time namespace");
  CHECK(budget.report().holders.size() == 1);
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

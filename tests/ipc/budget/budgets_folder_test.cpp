// SPDX-License-Identifier: MIT
// The folder of budgets: names that others took, processes that disagree, files that are too long.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <hipvmm/ipc/publication.hpp>
#include "ipc/budget/budget_test.hpp"
#include "ipc/publication_page.hpp"
#include "support/process/child_case.hpp"

namespace hipvmm::test {
namespace {

namespace fs = std::filesystem;

constexpr ::uid_t another_user = 65534;

/// Gives this process, a child, a /dev/shm of its own that is empty; else writes why not.
bool has_own_shared_memory() {
  ::setenv("HIPVMM_BUDGETS", "", 1);  // which names none
  if (::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") == 0)
    return true;
  std::fprintf(stderr, "skipped: cannot mount /dev/shm here: %s\n", std::strerror(errno));
  return false;
}

template <typename Work>
void as_another_user(Work work) {
  REQUIRE(succeeds_in_forked_child([&] {
    return ::setresgid(another_user, another_user, another_user) == 0 &&
           ::setresuid(another_user, another_user, another_user) == 0 && work();
  }));
}

std::string own_name() { return "/dev/shm/hipvmm-budgets-" + std::to_string(::geteuid()); }

std::size_t own_folders() {
  std::size_t count = 0;
  for (const auto& each : fs::directory_iterator{"/dev/shm"}) {
    struct stat about {};
    REQUIRE(::lstat(each.path().c_str(), &about) == 0);
    if (S_ISDIR(about.st_mode) && about.st_uid == ::geteuid()) ++count;
  }
  return count;
}

HIPVMM_CHILD("joins the budget that another process holds") {
  const memory_budget budget{first_device, "shared", budget_unit()};
  CHECK(budget.report().holders.size() == 2);
}

void joins_beside_another() {
  const memory_budget budget{first_device, "shared", budget_unit()};
  CHECK(budget.report().holders.size() == 1);
  CHECK(memory_budget::all().size() == 1);
  check_child("joins the budget that another process holds");
}

/// The folder, a file and links by the name that is no secret.
template <typename Take>
void joins_where_taken(Take take) {
  if (!has_own_shared_memory()) return;
  const std::string name = own_name();
  as_another_user([&] {
    return take(name) && ::mkdir((name + "-0").c_str(), 0777) == 0 &&
           ::chmod((name + "-0").c_str(), 0777) == 0;
  });
  joins_beside_another();
  CHECK(own_folders() == 1);
  // The name is free later, and later processes still meet the others.
  const memory_budget before{first_device, "other", budget_unit()};
  REQUIRE(::remove(name.c_str()) == 0);
  CHECK(memory_budget::all().size() == 2);
  CHECK(own_folders() == 1);
}

HIPVMM_CHILD("joins where the name is another user's folder") {
  joins_where_taken([](const std::string& name) { return ::mkdir(name.c_str(), 0700) == 0; });
}
HIPVMM_CHILD("joins where the name is another user's file") {
  joins_where_taken([](const std::string& name) { return ::creat(name.c_str(), 0666) >= 0; });
}
HIPVMM_CHILD("joins where the name is another user's link") {
  joins_where_taken([](const std::string& name) { return ::symlink("/tmp", name.c_str()) == 0; });
}
HIPVMM_CHILD("joins where nobody took the name") {
  if (!has_own_shared_memory()) return;
  CHECK(memory_budget::all().empty());
  CHECK(own_folders() == 0);
  joins_beside_another();
  CHECK(fs::is_directory(own_name()));
}

HIPVMM_CHILD("makes the folder in many processes at once") {
  if (!has_own_shared_memory()) return;
  const detail::budget_key key{"race", {{'r'}}};
  for (int round = 0; round < 40; ++round) {
    if (round % 2 == 0)
      as_another_user([name = own_name()] { return ::mkdir(name.c_str(), 0700) == 0; });
    constexpr int processes = 6;
    int go[2];
    int done[2];
    REQUIRE(::pipe(go) == 0);
    REQUIRE(::pipe(done) == 0);
    std::vector<::pid_t> children;
    for (int i = 0; i < processes; ++i) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      char any = 0;
      ::close(go[1]);
      ::close(done[1]);
      if (::read(go[0], &any, 1) != 0) ::_exit(4);
      // Some begin when others are in the midst of it, and the name may be free by then.
      ::usleep(static_cast<unsigned>(i) * 40);
      if (i == 3) ::rmdir(own_name().c_str());
      try {
        const auto file = detail::budget_file::open(key, 100);
        detail::budget_table table{file->shared()};
        if (!table.join(detail::own_process_identity(), 0, "child")) ::_exit(1);
        file->unlock();
        ::_exit(::read(done[0], &any, 1) == 0 ? 0 : 4);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(3);
      }
    }
    ::close(go[1]);
    CHECK(comes_true([&] {
      const auto all = memory_budget::all();
      return all.size() == 1 && all[0].holders.size() == processes;
    }));
    ::close(done[1]);
    ::close(go[0]);
    ::close(done[0]);
    for (const ::pid_t each : children) {
      int status = 0;
      REQUIRE(::waitpid(each, &status, 0) == each);
      CHECK(status == 0);
    }
    CHECK(own_folders() == 1);
    for (const auto& each : fs::directory_iterator{"/dev/shm"}) fs::remove_all(each.path());
  }
}

void check_child_or_skip(const std::string& name) {
  const child_result child = run_child(name);
  CHECK_MESSAGE(passed(child), child.output);
  if (child.output.find("skipped: ") != std::string::npos) MESSAGE(child.output);
}

TEST_CASE("budgets_folder: processes that make it at once meet in one") {
  check_child_or_skip("makes the folder in many processes at once");
}

TEST_SUITE_BEGIN("needs virtual memory");

TEST_CASE("budgets_folder: another user cannot take its name") {
  check_child_or_skip("joins where nobody took the name");
  check_child_or_skip("joins where the name is another user's folder");
  check_child_or_skip("joins where the name is another user's file");
  check_child_or_skip("joins where the name is another user's link");
}

HIPVMM_CHILD("holds as much of a budget of another folder") {
  const memory_budget budget{first_device, "shared", budget_unit()};
  CHECK(budget.report().holders.size() == 1);
  region memory{first_device, budget_unit()};
  memory.commit(0, budget_unit());
  CHECK(memory_budget::all().size() == 1);
}

// Each has the limit for itself: nothing links folders.
TEST_CASE_FIXTURE(budget_folder, "memory_budget: in different folders one name is two budgets") {
  const memory_budget budget{first_device, "shared", budget_unit()};
  region memory{first_device, budget_unit()};
  memory.commit(0, budget_unit());
  const temporary_folder other;
  check_child("holds as much of a budget of another folder",
              {"HIPVMM_BUDGETS=" + other.path().string()});
  CHECK(budget.report().holders.size() == 1);
  CHECK(budget.report().bytes == budget_unit());
}

HIPVMM_TEST_CASE_IN("memory_budget: a limit on the length of files is an error, not the end", {}) {
  const rlimit least{16, RLIM_INFINITY};
  const temporary_folder folder;
  ::setenv("HIPVMM_BUDGETS", folder.path().c_str(), 1);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &least) == 0);
  CHECK_THROWS_WITH_AS((memory_budget{first_device, "shared", budget_unit()}),
                       doctest::Contains("File too large"), ipc_error);
  CHECK_THROWS_WITH_AS(memory_budget::set_limit("shared", first_device.uuid(), 1),
                       doctest::Contains("File too large"), ipc_error);
  CHECK_THROWS_WITH_AS(detail::publication_page{}, doctest::Contains("File too large"), ipc_error);
  CHECK(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace hipvmm::test

TEST_SUITE_END();

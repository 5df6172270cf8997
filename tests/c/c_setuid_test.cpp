// SPDX-License-Identifier: MIT
// A program with rights of its own: no variable of its caller changes its behaviour.
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include <hipvmm/core/logger.hpp>
#include <hipvmm/mr/adaptor/logging_resource_adaptor.hpp>
#include <hipvmm/runtime/device.hpp>
#include "c/c_interface.hpp"
#include "c/settings.hpp"
#include "capability/capability_file.hpp"
#include "runtime/runtime_rules.hpp"
#include "support/process/temporary_folder.hpp"

namespace hipvmm::test {
namespace {

namespace fs = std::filesystem;

constexpr ::uid_t owner = 54321;
constexpr ::uid_t caller = 65534;
constexpr int has_no_rights = 77;

HIPVMM_CHILD("runs with rights of its own") {
  if (::getauxval(AT_SECURE) == 0) ::_exit(has_no_rights);
  CHECK(::geteuid() == owner);
  CHECK(::getuid() == caller);
  owned_resource pool;
  CHECK(hipvmm_pool_create(0, nullptr, pool.out()) == HIPVMM_OK);
  void* block = nullptr;
  CHECK(hipvmm_allocate(pool, 1024, 0, nullptr, &block) == HIPVMM_OK);
  CHECK(hipvmm_deallocate(pool, block, 1024, 0, nullptr) == HIPVMM_OK);
  CHECK_FALSE(c::names_a_budget());
  CHECK(c::configured_budget(device_ref{0}) == std::nullopt);
  CHECK(detail::cache_path("any").empty());
  CHECK_THROWS_AS(mr::logging_resource_adaptor::get_default_filename(), std::invalid_argument);
  default_logger().log(log_level::critical, "a line");
}

/// Starts a copy of this program, which belongs to `owner` and is setuid, as `caller`.
int status_of_setuid_copy(const fs::path& folder) {
  fs::permissions(folder, fs::perms{0711});
  const fs::path copy = folder / "setuid";
  fs::copy_file("/proc/self/exe", copy);
  REQUIRE(::chown(copy.c_str(), owner, owner) == 0);
  REQUIRE(::chmod(copy.c_str(), 04755) == 0);
  const fs::path open = folder / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms{0777});
  std::vector<std::string> variables{"HIPVMM_CONF=nonsense=3,budget=infer:1KiB",
                                     "HIPVMM_CAPABILITY=nonsense",
                                     "HIPVMM_PROBE=/bin/false",
                                     "HIPVMM_PRELOAD=off",
                                     "HIPVMM_BUDGETS=relative",
                                     "HIPVMM_HOST_PROFILE=nonsense",
                                     "HIPVMM_HOST_DEVICES=nonsense",
                                     "HIPVMM_HOST_MEMORY=nonsense",
                                     "HIPVMM_HOST_FAULTS=nonsense",
                                     "HIPVMM_HOST_NO_SUCH_VARIABLE=1",
                                     "HOME=" + open.string(),
                                     "XDG_CACHE_HOME=" + open.string()};
  // AMD's runtime hears its own variables in setuid programs too.
  if (HIPVMM_TEST_ON_AMD == 0) variables.emplace_back("HIP_VISIBLE_DEVICES=");
  for (const char* const log :
       {"HIPVMM_LOG_FILE", "RMM_LOG_FILE", "HIPVMM_DEBUG_LOG_FILE", "RMM_DEBUG_LOG_FILE"})
    variables.push_back(std::string{log} + '=' + (open / log).string());
  std::vector<char*> environment;
  for (std::string& each : variables) environment.push_back(each.data());
  environment.push_back(nullptr);
  std::string name = copy.string();
  std::string child = "--child=runs with rights of its own";
  std::array<char*, 3> arguments{name.data(), child.data(), nullptr};
  const ::pid_t process = ::fork();
  if (process == 0) {
    if (::setresgid(caller, caller, caller) == 0 && ::setresuid(caller, caller, caller) == 0)
      ::execve(copy.c_str(), arguments.data(), environment.data());
    ::_exit(has_no_rights);
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  // NVIDIA's driver and AMD's compiler have caches of their own there.
  const fs::path others = HIPVMM_TEST_ON_CUDA != 0 ? ".nv" : "comgr";
  for (const fs::directory_entry& each : fs::directory_iterator{open})
    CHECK_MESSAGE(each.path().filename() == others, each.path());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("environment: a setuid program hears none of its caller's variables") {
  HIPVMM_SKIP_IF(::geteuid() != 0, "only root can give a program away");
  if (HIPVMM_TEST_ON_AMD != 0 && detail::rules_of_runtime().is_at_least(7, 0)) {
    MESSAGE("skipped: hipStreamCreate of AMD's runtime 7.2.4 crashes in setuid programs");
    return;
  }
  const temporary_folder folder;
  const int status = status_of_setuid_copy(folder.path());
  if (status == has_no_rights)
    MESSAGE("skipped: " << folder.path() << " allows no setuid programs");
  else
    CHECK(status == 0);
}

}  // namespace
}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "support/process/child_process.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

extern char** environ;

namespace hipvmm::test {
namespace {

void require(int error, const char* what) {
  if (error != 0) throw std::system_error{error, std::generic_category(), what};
}

class spawn_actions {
 public:
  spawn_actions() { require(posix_spawn_file_actions_init(&actions_), "posix_spawn"); }
  ~spawn_actions() { posix_spawn_file_actions_destroy(&actions_); }
  spawn_actions(const spawn_actions&) = delete;
  spawn_actions& operator=(const spawn_actions&) = delete;

  void give(int descriptor, int number) {
    require(posix_spawn_file_actions_adddup2(&actions_, descriptor, number), "posix_spawn");
  }
  void close(int descriptor) {
    require(posix_spawn_file_actions_addclose(&actions_, descriptor), "posix_spawn");
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

/// This process's environment, where `added` replaces variables of the same name.
std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> result = added;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view existing{*variable};
    const std::string_view name = existing.substr(0, existing.find('=') + 1);
    bool replaced = false;
    for (const std::string& replacement : added) replaced |= replacement.starts_with(name);
    if (!replaced) result.emplace_back(existing);
  }
  return result;
}

std::string read_all(int descriptor) {
  std::string result;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got > 0) {
      result.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return result;
    }
  }
}

}  // namespace

child_result run_case_in_child(const std::string& test_case,
                               const std::vector<std::string>& environment,
                               const std::vector<inherited_descriptor>& descriptors) {
  std::vector<std::string> arguments{"/proc/self/exe", "--no-skip", "--no-colors",
                                     "--test-case=" + test_case};
  std::vector<std::string> variables = merged_environment(environment);
  std::array<int, 2> ends;
  require(::pipe(ends.data()) == 0 ? 0 : errno, "pipe");

  spawn_actions actions;
  actions.give(ends[1], STDOUT_FILENO);
  actions.give(ends[1], STDERR_FILENO);
  actions.close(ends[0]);
  for (const auto& [descriptor, number] : descriptors) actions.give(descriptor, number);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", actions.get(), nullptr,
                                  pointers(arguments).data(), pointers(variables).data());
  ::close(ends[1]);
  std::string output = error == 0 ? read_all(ends[0]) : std::string{};
  ::close(ends[0]);
  require(error, "posix_spawn");

  int status = 0;
  while (::waitpid(child, &status, 0) < 0) require(errno == EINTR ? 0 : errno, "waitpid");
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), std::move(output)};
}

bool passed(const child_result& result) {
  return result.status == 0 && result.output.find(" 1 passed | 0 failed") != std::string::npos;
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#include "support/process/child_process.hpp"

#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

extern char** environ;

#ifdef __SANITIZE_ADDRESS__
/// LeakSanitizer asks at the end of a process. A child of fork() lacks its parent's threads, so all
/// memory that only their stacks refer to would count as leaked. It cannot attach to a setuid
/// program.
extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier)
  static const ::pid_t first = ::getpid();
  return ::getpid() == first && ::getauxval(AT_SECURE) == 0 ? 0 : 1;
}
// Calls it in the first process.
[[maybe_unused]] static const int is_turned_off = __lsan_is_turned_off();
#endif

namespace hipvmm::test {
namespace {

constexpr std::string_view option = "--child=";
constexpr const char* passed_line = "child: passed\n";
constexpr int failed_status = 1;
constexpr int unknown_status = 127;

/// The children of this program. Filled before main, by many files.
std::vector<std::pair<std::string_view, void (*)()>>& children() {
  static std::vector<std::pair<std::string_view, void (*)()>> all;
  return all;
}

std::atomic<int> failed_asserts{0};

/// An assert that failed, and its lines of CAPTURE and INFO, in one piece: threads assert too.
void print_failure(const doctest::AssertData& failed) {
  ++failed_asserts;
  std::ostringstream text;
  text << failed.m_file << ':' << failed.m_line << ": " << doctest::failureString(failed.m_at)
       << ": " << doctest::assertString(failed.m_at) << "( " << failed.m_expr << " )\n";
  if (failed.m_decomp.size() > 0) text << "  values: " << failed.m_decomp << '\n';
  if (failed.m_threw) text << "  it threw: " << failed.m_exception << '\n';
  const doctest::IContextScope* const* const contexts = doctest::IReporter::get_active_contexts();
  for (int i = 0; i < doctest::IReporter::get_num_active_contexts(); ++i) {
    text << "  logged: ";
    contexts[i]->stringify(&text);
    text << '\n';
  }
  std::fputs(text.str().c_str(), stderr);
}

void require(int error, const char* what) {
  if (error != 0) throw std::system_error{error, std::generic_category(), what};
}

class spawn_actions {
 public:
  spawn_actions() { require(posix_spawn_file_actions_init(&actions_), "posix_spawn"); }
  ~spawn_actions() { posix_spawn_file_actions_destroy(&actions_); }
  spawn_actions& operator=(spawn_actions&&) = delete;

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

/// This process's environment, but `added` replaces variables of the same name. A profile that it
/// names brings its own granularity.
std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> result = added;
  const bool names_profile = std::ranges::any_of(
      added, [](const std::string& each) { return each.starts_with("HIPVMM_HOST_PROFILE="); });
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view existing{*variable};
    const std::string_view name = existing.substr(0, existing.find('=') + 1);
    bool replaced = names_profile && name == "HIPVMM_HOST_GRANULARITY=";
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

child_entry::child_entry(const char* name, void (*body)()) { children().emplace_back(name, body); }

std::optional<int> run_as_child(int argc, char** argv) {
  if (argc != 2 || !std::string_view{argv[1]}.starts_with(option)) return std::nullopt;
  const std::string_view name = std::string_view{argv[1]}.substr(option.size());
  void (*body)() = nullptr;
  for (const auto& [known, does] : children()) {
    if (known != name) continue;
    if (body != nullptr) {
      std::fprintf(stderr, "two children are called \"%s\"\n", argv[1] + option.size());
      return unknown_status;
    }
    body = does;
  }
  if (body == nullptr) {
    std::fprintf(stderr, "no child is called \"%s\"\n", argv[1] + option.size());
    return unknown_status;
  }
  doctest::Context asserts;
  asserts.setAsDefaultForAssertsOutOfTestCases();
  asserts.setAssertHandler(print_failure);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the child ended with an exception: %s\n", error.what());
    return failed_status;
  } catch (...) {  // of a REQUIRE that failed, mostly
    std::fputs("the child ended with an exception\n", stderr);
    return failed_status;
  }
  if (failed_asserts > 0) return failed_status;
  std::fputs(passed_line, stderr);
  return 0;
}

child_result run_child(const std::string& name, const std::vector<std::string>& environment,
                       const std::vector<inherited_descriptor>& descriptors) {
  std::vector<std::string> arguments{"/proc/self/exe", std::string{option} + name};
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
  return result.status == 0 && result.output.find(passed_line) != std::string::npos;
}

bool was_segv(const child_result& result) {
  return result.status == 128 + SIGSEGV || result.output.find("SEGV") != std::string::npos;
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
// The log is one for a process: cases that look at its file begin as children do, with an
// environment of their own.
#include <hipvmm/core/logger.hpp>

#include <fcntl.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <system_error>

#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "core/logger.hpp"
#include "support/process/forked_child.hpp"
#include "support/process/temporary_folder.hpp"
#include "support/test.hpp"

namespace hipvmm {
namespace {

std::size_t count_of(const std::string& text, const std::string& regex) {
  const std::regex wanted{regex};
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator{text.begin(), text.end(), wanted}, {}));
}

/// The log file of a child, and its other output.
struct logged {
  std::string file;
  std::string output;
};

logged run_with_file(const std::string& name,
                     const std::string& variable = "HIPVMM_DEBUG_LOG_FILE") {
  const test::temporary_folder folder;
  const std::string path = folder.path() / "debug.log";
  const test::child_result child = test::run_child(name, {variable + "=" + path});
  INFO(child.output);
  CHECK(passed(child));
  std::ifstream file{path};
  return {{std::istreambuf_iterator<char>{file}, {}}, child.output};
}

std::string run_without_file(const std::string& name, const std::string& file = {}) {
  const test::child_result child = test::run_child(name, {"HIPVMM_DEBUG_LOG_FILE=" + file});
  INFO(child.output);
  CHECK(passed(child));
  return child.output;
}

void run_out_of_memory() {
  mr::vmm_pool_resource pool{device_ref{0}};
  CHECK_THROWS_AS(static_cast<void>(pool.allocate_sync(SIZE_MAX)), std::bad_alloc);
}

}  // namespace

TEST_CASE("logger: a line that is not compiled in, or is off, is not even made") {
  const log_level before = default_logger().level();
  default_logger().set_level(log_level::trace);
  int made = 0;
  const auto make = [&made] {
    ++made;
    return "made";
  };
  detail::log<log_level::debug, log_level::info>(make);
  detail::log<log_level::critical, log_level::off>(make);
  default_logger().set_level(log_level::error);
  detail::log<log_level::warn, log_level::trace>(make);
  default_logger().set_level(before);
  CHECK(made == 0);
}

HIPVMM_CHILD("the log has a file") {
  CHECK(default_logger().level() == log_level::info);
  CHECK(default_logger().should_log(log_level::info));
  CHECK_FALSE(default_logger().should_log(log_level::debug));
  CHECK_FALSE(default_logger().should_log(log_level::off));
  run_out_of_memory();
  default_logger().set_level(log_level::warn);
  default_logger().log(log_level::info, "too little");
  default_logger().log(log_level::warn, "100 % of {} is \\n");
  default_logger().set_level(log_level::trace);
  detail::log<log_level::trace, log_level::trace>([] { return "as little as can be"; });
  default_logger().set_level(log_level::off);
  default_logger().log(log_level::critical, "too late");
  default_logger().flush();
}
TEST_CASE("logger: the file has what the level lets through, in hipMM's form") {
  const logged seen = run_with_file("the log has a file");
  INFO(seen.file);
  const std::string front = R"((^|\n)\[ *\d+\]\[\d\d:\d\d:\d\d:\d{6}\])";
  CHECK(count_of(seen.file, front + R"(\[info  \] device 0: memory by )") == 1);
  CHECK(count_of(seen.file, front + R"(\[info  \] \S+ pool .* has at most .* of device 0: )") == 1);
  CHECK(count_of(seen.file, front + R"(\[error \] \S+ pool .*: out of device memory: )") == 1);
  CHECK(count_of(seen.file, front + R"(\[warning\] 100 % of \{\} is \\n)") == 1);
  CHECK(count_of(seen.file, front + R"(\[trace \] as little as can be)") == 1);
  CHECK(count_of(seen.file, "too l") == 0);
  CHECK(count_of(seen.output, "pool") == 0);
}

HIPVMM_CHILD("nobody asks for the log") {
  CHECK(default_logger().level() == log_level::off);
  run_out_of_memory();
}
HIPVMM_CHILD("the log is asked for without a file") {
  default_logger().set_level(log_level::error);
  run_out_of_memory();
}
TEST_CASE("logger: without a file standard error has what is asked for, else nothing") {
  const std::string line = R"(\[error \] \S+ pool .*: out of device memory: )";
  CHECK(count_of(run_without_file("nobody asks for the log"), line) == 0);
  CHECK(count_of(run_without_file("the log is asked for without a file"), line) == 1);
}

HIPVMM_CHILD("something fails where nothing can be thrown") {
  default_logger().set_level(log_level::info);
  detail::warn("the subject", "a whole sentence");
}
TEST_CASE("logger: what the error handler is told is logged, on standard error only once") {
  const std::string sentence = "a whole sentence";
  CHECK(count_of(run_without_file("something fails where nothing can be thrown"), sentence) == 1);
  const logged seen = run_with_file("something fails where nothing can be thrown");
  CHECK(count_of(seen.file, R"(\[error \] the subject: a whole sentence)") == 1);
  CHECK(count_of(seen.output, sentence) == 1);
}

HIPVMM_CHILD("three lines are logged") {
  CHECK(default_logger().level() == log_level::info);
  for (int i = 0; i < 3; ++i) default_logger().log(log_level::info, "a line");
}
TEST_CASE("logger: a file that cannot be written is told once, and standard error has the lines") {
  const std::string output = run_without_file("three lines are logged", "/dev/null/debug.log");
  CHECK(count_of(output, "HIPVMM_DEBUG_LOG_FILE names.*/dev/null/debug.log") == 1);
  CHECK(count_of(output, "a line") == 3);
}
TEST_CASE("logger: hipMM's variable names the file, unless hipvmm's own does") {
  CHECK(count_of(run_with_file("three lines are logged", "RMM_DEBUG_LOG_FILE").file, "a line") ==
        3);
  const test::temporary_folder folder;
  const std::string other = folder.path() / "other.log";
  REQUIRE(::setenv("RMM_DEBUG_LOG_FILE", other.c_str(), 1) == 0);
  CHECK(count_of(run_with_file("three lines are logged").file, "a line") == 3);
  REQUIRE(::unsetenv("RMM_DEBUG_LOG_FILE") == 0);
  CHECK(!std::filesystem::exists(other));
}
HIPVMM_CHILD("the log's file is open") {
  default_logger().log(log_level::info, "a line");
  const std::filesystem::path name = ::secure_getenv("HIPVMM_DEBUG_LOG_FILE");
  int found = 0;
  for (int file = 0; file < 256; ++file) {
    std::error_code none;
    const std::string own = "/proc/self/fd/" + std::to_string(file);
    if (std::filesystem::read_symlink(own, none) != name) continue;
    ++found;
    CHECK((::fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 1);
}
TEST_CASE("logger: programs that the process starts do not inherit the file") {
  CHECK(count_of(run_with_file("the log's file is open").file, "a line") == 1);
}
HIPVMM_CHILD("a child of fork() logs beside a thread of its parent") {
  std::atomic<bool> is_over{false};
  std::thread other{[&] {
    while (!is_over) default_logger().log(log_level::info, "of the thread");
  }};
  bool all_end = true;
  for (int i = 0; i < 300 && all_end; ++i)
    all_end = test::succeeds_in_forked_child([] {
      default_logger().log(log_level::info, "of the child");
      default_logger().flush();
      return true;
    });
  is_over = true;
  other.join();
  CHECK(all_end);
}
TEST_CASE("logger: a child of fork() waits for no line of its parent's threads") {
  CHECK(count_of(run_with_file("a child of fork() logs beside a thread of its parent").file,
                 "of the thread") != 0);
}
TEST_CASE("logger: a full disk is told once") {
  const std::string output = run_without_file("three lines are logged", "/dev/full");
  CHECK(count_of(output, "lines are missing from it.*No space left on device") == 1);
}

}  // namespace hipvmm

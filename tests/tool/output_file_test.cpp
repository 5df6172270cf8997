// SPDX-License-Identifier: MIT
#include "tool/output_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <system_error>

#include "support/process/temporary_folder.hpp"

namespace hipvmm::test::output_file_test {
namespace {

using tool::clash_of;
using tool::output_file;

struct files {
  temporary_folder folder;
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder.path() / name).string();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream{path(name), std::ios::binary} << text;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file{path(name), std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
  [[nodiscard]] std::size_t count() const {
    const std::filesystem::directory_iterator entries{folder.path()};
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }
  [[nodiscard]] struct stat about(const std::string& name) const {
    struct stat result {};
    REQUIRE(::stat(path(name).c_str(), &result) == 0);
    return result;
  }
};

struct open_pipe {
  open_pipe() { REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0); }
  ~open_pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  std::array<int, 2> ends{};
};

/// errno of the action's exception; 0 if it throws nothing.
template <typename Action>
int error_of(Action action) {
  try {
    action();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

TEST_CASE("output_file: makes a file only when there is something to write") {
  const files all;
  {
    output_file unused{all.path("result")};
    CHECK(all.count() == 0);
  }
  CHECK(all.count() == 0);
  output_file file{all.path("result")};
  file.write("text\n");
  CHECK(all.read("result") == "text\n");
  CHECK(all.count() == 1);
}

TEST_CASE("output_file: what was there stays until it is written, and its mode after that") {
  const files all;
  all.write("result", "a longer text from before");
  REQUIRE(::chmod(all.path("result").c_str(), 0640) == 0);
  {
    const output_file unused{all.path("result")};
    CHECK(all.read("result") == "a longer text from before");
  }
  CHECK(all.read("result") == "a longer text from before");
  output_file{all.path("result")}.write("new");
  CHECK(all.read("result") == "new");
  CHECK((all.about("result").st_mode & 07777U) == 0640);
  CHECK(all.count() == 1);
}

TEST_CASE("output_file: a reader has the old text or the new, never a part") {
  const files all;
  all.write("result", std::string(100'000, 'a'));
  std::future<void> writer = std::async(std::launch::async, [&all] {
    for (const char each : std::string{"bcdefghijklmnopqrstuvwxyz"})
      output_file{all.path("result")}.write(std::string(100'000, each));
  });
  do {
    const std::string read = all.read("result");
    REQUIRE(read.size() == 100'000);
    REQUIRE(read.front() == read.back());
  } while (writer.wait_for(std::chrono::seconds{0}) != std::future_status::ready);
  CHECK(all.count() == 1);
}

TEST_CASE("output_file: a new file has the mode that the process's mask leaves") {
  const files all;
  const mode_t mask = ::umask(027);
  output_file{all.path("result")}.write("text");
  ::umask(mask);
  CHECK((all.about("result").st_mode & 07777U) == 0640);
}

TEST_CASE("output_file: symbolic links lead to the file and stay") {
  const files all;
  all.write("result", "before");
  std::filesystem::create_symlink("result", all.path("link"));
  std::filesystem::create_symlink(all.path("link"), all.path("second"));
  std::filesystem::create_symlink("new", all.path("dangling"));
  output_file{all.path("second")}.write("after");
  output_file{all.path("dangling")}.write("made");
  CHECK(std::filesystem::is_symlink(all.path("link")));
  CHECK(std::filesystem::is_symlink(all.path("second")));
  CHECK(std::filesystem::is_symlink(all.path("dangling")));
  CHECK(all.read("result") == "after");
  CHECK(all.read("new") == "made");
}

TEST_CASE("output_file: devices, pipes and descriptors are written to as they are") {
  CHECK(error_of([] { output_file{"/dev/null"}.write("text"); }) == 0);
  CHECK(error_of([] { output_file{"/dev/full"}.write("text"); }) == ENOSPC);

  const open_pipe pipe;
  output_file{"/proc/self/fd/" + std::to_string(pipe.ends[1])}.write("piped");
  std::array<char, 8> got{};
  CHECK(::read(pipe.ends[0], got.data(), got.size()) == 5);
  CHECK(std::string{got.data()} == "piped");
  CHECK(error_of([&pipe] { output_file{"/dev/fd/" + std::to_string(pipe.ends[0])}; }) == EBADF);

  // A file that a shell has opened for appending, and may have written to.
  const files all;
  all.write("log", "first\n");
  const int log = ::open(all.path("log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(log >= 0);
  output_file{"/dev/fd/" + std::to_string(log)}.write("second\n");
  ::close(log);
  CHECK(all.read("log") == "first\nsecond\n");
}

TEST_CASE("output_file: a place that takes no file is found out before the work") {
  const files all;
  all.write("file", "text");
  CHECK(error_of([] { output_file{"/nonexistent/result"}; }) == ENOENT);
  CHECK(error_of([] { output_file{""}; }) == EISDIR);
  CHECK(error_of([&all] { output_file{all.folder.path().string()}; }) == EISDIR);
  CHECK(error_of([&all] { output_file{all.path("file/result")}; }) == ENOTDIR);
  CHECK(error_of([&all] { output_file{all.path(std::string(256, 'n'))}; }) == ENAMETOOLONG);
  CHECK(error_of([] { output_file{"/dev/fd/4711"}; }) == EBADF);
  output_file{all.path(std::string(255, 'n'))}.write("text");
  CHECK(all.count() == 2);
}

TEST_CASE("output_file: the owner of what is replaced stays") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may give a file away");
    return;
  }
  const files all;
  all.write("result", "before");
  REQUIRE(::chown(all.path("result").c_str(), 65534, 65534) == 0);
  output_file{all.path("result")}.write("after");
  CHECK(all.about("result").st_uid == 65534);
  CHECK(all.about("result").st_gid == 65534);
}

TEST_CASE("clash_of: files that differ have none, whatever their names") {
  const files all;
  all.write("trace", "text");
  all.write("other", "text");
  CHECK(clash_of({{"TRACE", all.path("trace")}},
                 {{"--json", all.path("other")}, {"--timeline", all.path("new")}}) == "");
  CHECK(clash_of({{"TRACE", "-"}}, {{"--json", "-"}}) == "");
  CHECK(clash_of({{"TRACE", "-"}}, {{"--json", "/dev/stdout"}}) == "");
  // Devices hold nothing that could be destroyed.
  CHECK(clash_of({{"TRACE", "/dev/null"}},
                 {{"--json", "/dev/null"}, {"--timeline", "/dev/null"}}) == "");
}

TEST_CASE("clash_of: an output that is an input is named, by whatever path") {
  const files all;
  all.write("trace", "text");
  std::filesystem::create_symlink("trace", all.path("symlink"));
  std::filesystem::create_hard_link(all.path("trace"), all.path("hard link"));
  std::filesystem::create_directory(all.path("folder"));
  for (const char* name : {"trace", "symlink", "hard link", "folder/../trace"}) {
    CAPTURE(name);
    CHECK(clash_of({{"TRACE", all.path("trace")}}, {{"--json", all.path(name)}}) ==
          "--json '" + all.path(name) + "' is the same file as TRACE '" + all.path("trace") +
              "'; name another one");
    CHECK(clash_of({{"TRACE", all.path(name)}}, {{"--json", all.path("trace")}}) != "");
  }
  const int open = ::open(all.path("trace").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(open >= 0);
  CHECK(clash_of({{"TRACE", "/dev/fd/" + std::to_string(open)}}, {{"--json", all.path("trace")}}) !=
        "");
  ::close(open);
}

TEST_CASE("clash_of: two outputs to one file are named, also where there is none yet") {
  const files all;
  all.write("result", "text");
  std::filesystem::create_symlink("new", all.path("dangling"));
  const auto clash = [](const std::string& a, const std::string& b) {
    return clash_of({}, {{"--json", a}, {"--timeline", b}});
  };
  CHECK(clash(all.path("result"), all.path("result")) ==
        "--timeline '" + all.path("result") + "' is the same file as --json '" +
            all.path("result") + "'; name another one");
  CHECK(clash(all.path("new"), all.path("../") + all.folder.path().filename().string() + "/new") !=
        "");
  CHECK(clash(all.path("new"), all.path("dangling")) != "");
  CHECK(clash("-", "-") == "--timeline is the same file as --json; name another one");
  CHECK(clash("-", "/dev/stdout") != "");
  CHECK(clash(all.path("new"), all.path("newer")) == "");
}

}  // namespace
}  // namespace hipvmm::test::output_file_test

// SPDX-License-Identifier: MIT
#include "support/process/program.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

namespace hipvmm::test {
namespace {

int checked(int result, const char* call) {
  if (result < 0) throw std::system_error{errno, std::generic_category(), call};
  return result;
}

class descriptor {
 public:
  explicit descriptor(int value = -1) : value_{value} {}
  ~descriptor() { close(); }
  descriptor(descriptor&& other) noexcept : value_{std::exchange(other.value_, -1)} {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

struct two_ends {
  descriptor near, far;  // far is the program's
};

two_ends make_pipe(bool program_reads) {
  int ends[2];
  checked(::pipe2(ends, O_CLOEXEC), "pipe2");
  return {descriptor{ends[program_reads ? 1 : 0]}, descriptor{ends[program_reads ? 0 : 1]}};
}

two_ends make_terminal() {
  descriptor near{checked(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt")};
  checked(::grantpt(near.get()), "grantpt");
  checked(::unlockpt(near.get()), "unlockpt");
  descriptor far{checked(::open(::ptsname(near.get()), O_RDWR | O_NOCTTY | O_CLOEXEC), "open")};
  return {std::move(near), std::move(far)};
}

descriptor make_buffer() {
  return descriptor{checked(::memfd_create("output", MFD_CLOEXEC), "memfd_create")};
}

std::string contents_of(const descriptor& buffer) {
  checked(static_cast<int>(::lseek(buffer.get(), 0, SEEK_SET)), "lseek");
  std::string result;
  char piece[4096];
  while (const ssize_t got = ::read(buffer.get(), piece, sizeof piece)) {
    checked(static_cast<int>(got), "read");
    result.append(piece, static_cast<std::size_t>(got));
  }
  return result;
}

/// The text on the screen of a terminal whose other end is closed.
std::string screen_of(const descriptor& terminal) {
  std::string result;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(terminal.get(), piece, sizeof piece);
    if (got <= 0) return result;  // EIO: the program's end is gone
    result.append(piece, static_cast<std::size_t>(got));
  }
}

/// Writes until all is written or nobody reads any more.
void feed(descriptor end, const std::string& bytes) {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  std::size_t piece = 1;
  for (std::size_t done = 0; done < bytes.size();) {
    piece = piece * 7 % 9973;
    const ssize_t put =
        ::write(end.get(), bytes.data() + done, std::min(piece, bytes.size() - done));
    if (put < 0) return;
    done += static_cast<std::size_t>(put);
  }
}

std::vector<std::string> command(const std::string& path, const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment) {
  std::vector<std::string> words;
  if (!environment.empty()) {
    words.emplace_back("/usr/bin/env");
    words.insert(words.end(), environment.begin(), environment.end());
  }
  words.push_back(path);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// Ends as another program. Between fork and exec nothing may allocate.
[[noreturn]] void become(char* const* argv, bool plain_user, const int (&standard)[3]) {
  for (int target = 0; target < 3; ++target) {
    if (standard[target] < 0)
      ::close(target);
    else if (::dup2(standard[target], target) < 0)
      ::_exit(126);
  }
  if (plain_user) {
    // Refused to processes of plain users.
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
    ::prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0);
  }
  ::execv(argv[0], argv);
  ::_exit(127);
}

}  // namespace

outcome run(const std::string& path, const std::vector<std::string>& arguments,
            const surroundings& given) {
  two_ends in = given.terminal_input ? make_terminal() : make_pipe(true);
  if (given.non_blocking_input) checked(::fcntl(in.far.get(), F_SETFL, O_NONBLOCK), "fcntl");

  descriptor out = make_buffer();
  if (given.closed_output) out.close();
  if (given.deserted_output) out = make_pipe(false).far;
  if (!given.output_file.empty())
    out = descriptor{
        checked(::open(given.output_file.c_str(), O_WRONLY | O_CLOEXEC), "open the output file")};

  descriptor err = make_buffer();
  descriptor screen;
  if (given.terminal_errors) {
    two_ends terminal = make_terminal();
    err = std::move(terminal.far);
    screen = std::move(terminal.near);
  }

  std::vector<std::string> words = command(path, arguments, given.environment);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = checked(::fork(), "fork");
  if (child == 0) become(argv.data(), given.plain_user, {in.far.get(), out.get(), err.get()});
  in.far.close();
  std::thread feeder;
  if (!given.terminal_input)
    feeder = std::thread{[&] { feed(std::move(in.near), given.standard_input); }};
  std::string errors;
  if (given.terminal_errors) {
    err.close();
    errors = screen_of(screen);
  }

  int status = 0;
  pid_t ended;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  checked(ended, "waitpid");
  if (feeder.joinable()) feeder.join();

  const bool readable = !given.closed_output && !given.deserted_output && given.output_file.empty();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          readable ? contents_of(out) : std::string{},
          given.terminal_errors ? errors : contents_of(err)};
}

void check_sentence(const std::string& written, const std::string& begin,
                    const std::vector<std::string>& words) {
  CHECK(written.starts_with(begin));
  CHECK(std::count(written.begin(), written.end(), '\n') == 1);
  CHECK(written.ends_with('\n'));
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(written.find(word) != std::string::npos);
  }
}

std::string arbitrary_bytes(std::size_t count) {
  std::string result(count, '\0');
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (char& byte : result) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return result;
}

temporary_file::temporary_file(const std::string& contents, const std::string& suffix) {
  path_ = std::filesystem::temp_directory_path() / ("hipvmm_test_XXXXXX" + suffix);
  const descriptor created{
      checked(::mkstemps(path_.data(), static_cast<int>(suffix.size())), "mkstemps")};
  std::ofstream{path_, std::ios::binary} << contents;
}

temporary_file::~temporary_file() { ::unlink(path_.c_str()); }

std::string temporary_file::contents() const {
  std::ifstream file{path_, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace hipvmm::test

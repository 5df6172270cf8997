// SPDX-License-Identifier: MIT
#include "tool/replay/replay_timeline.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <hipvmm/core/bytes.hpp>

namespace hipvmm::tool {
namespace {

using temporary = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[noreturn]] void fail(const std::string& what, int code) {
  throw std::runtime_error{"--timeline: " + what + ": " + std::strerror(code)};
}

temporary file_with(const std::string& text) {
  temporary file{std::tmpfile(), std::fclose};
  if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      std::fflush(file.get()) != 0 || std::fseek(file.get(), 0, SEEK_SET) != 0)
    fail("cannot write to a temporary file", errno);
  return file;
}

/// The picture that gnuplot draws by a script.
temporary run_gnuplot(const std::string& script) {
  const temporary input = file_with(script);
  temporary output = file_with("");
  posix_spawn_file_actions_t actions;
  if (const int code = ::posix_spawn_file_actions_init(&actions))
    fail("cannot start gnuplot", code);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(input.get()), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(output.get()), STDOUT_FILENO);
  std::array<char, 8> name{"gnuplot"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t child = 0;
  const int code =
      ::posix_spawnp(&child, name.data(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code != 0)
    fail(
        "cannot start gnuplot, which draws the picture; install it (Debian: gnuplot-nox) or leave "
        "the option out",
        code);

  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("cannot wait for gnuplot", errno);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw std::runtime_error{"--timeline: gnuplot failed, see what it wrote above"};
  if (std::fseek(output.get(), 0, SEEK_SET) != 0)
    fail("cannot read again what gnuplot wrote", errno);
  return output;
}

std::string in_mib(std::size_t bytes) {
  return std::to_string(static_cast<double>(bytes) / static_cast<double>(MiB));
}

}  // namespace

replay_timeline::replay_timeline(std::string path) : path_{std::move(path)} {
  constexpr int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
  file_ = ::open(path_.c_str(), flags | O_EXCL, 0666);
  const bool is_new = file_ >= 0;
  // What is in a file of somebody's stays until there is a picture.
  if (!is_new && errno == EEXIST) file_ = ::open(path_.c_str(), flags, 0666);
  if (file_ < 0) fail("cannot create '" + path_ + "'", errno);
  try {
    static_cast<void>(run_gnuplot(""));
  } catch (...) {
    ::close(file_);
    if (is_new) ::unlink(path_.c_str());
    throw;
  }
}

replay_timeline::~replay_timeline() { ::close(file_); }

void replay_timeline::draw(const std::string& title,
                           const std::vector<replay_sample>& samples_taken) const {
  const temporary picture = run_gnuplot(timeline_script(title, samples_taken));
  // Neither works, nor is needed, for a pipe or a device.
  static_cast<void>(::lseek(file_, 0, SEEK_SET));
  static_cast<void>(::ftruncate(file_, 0));
  std::array<char, 65536> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), picture.get())) {
    for (std::size_t done = 0; done < count;) {
      const ssize_t written = ::write(file_, part.data() + done, count - done);
      if (written < 0 && errno != EINTR) fail("cannot write to '" + path_ + "'", errno);
      done += written < 0 ? 0 : static_cast<std::size_t>(written);
    }
  }
  if (std::ferror(picture.get()) != 0) fail("cannot read what gnuplot drew", errno);
}

std::string timeline_script(const std::string& title, const std::vector<replay_sample>& samples) {
  const bool tells_mapped = !samples.empty() && samples.front().held.mapped.has_value();
  std::ostringstream script;
  script << "set terminal svg size 960,480 noenhanced background '#ffffff'\n"
            "set title '";
  for (const char each : title) {
    if (each == '\'') script << each;  // twice inside of a quoted text
    script << (each == '\n' ? ' ' : each);
  }
  script << "'\nset xlabel 'recorded time (s)'\nset ylabel 'memory (MiB)'\n"
            "set yrange [0:*]\nset grid\nset key outside below horizontal\n$held << END\n";
  for (const replay_sample& each : samples)
    script << each.seconds << ' ' << in_mib(each.requested) << ' ' << in_mib(each.held.physical)
           << ' ' << in_mib(each.held.mapped.value_or(0)) << '\n';
  script << "END\nplot $held using 1:3 with fillsteps fs solid 0.25 lc rgb '#1f77b4' notitle, \\\n"
            "  $held using 1:3 with steps lw 1.5 lc rgb '#1f77b4' title 'physical', \\\n";
  if (tells_mapped) script << "  $held using 1:4 with steps lc rgb '#2ca02c' title 'mapped', \\\n";
  script << "  $held using 1:2 with steps lw 1.5 lc rgb '#d62728' title 'requested'\n";
  return script.str();
}

}  // namespace hipvmm::tool

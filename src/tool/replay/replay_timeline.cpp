// SPDX-License-Identifier: MIT
#include "tool/replay/replay_timeline.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iomanip>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include <hipvmm/core/bytes.hpp>
#include "tool/printable.hpp"

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

std::string run_gnuplot(const std::string& script) {
  const temporary input = file_with(script);
  const temporary output = file_with("");
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
    throw std::runtime_error{"--timeline: gnuplot failed, see its messages above"};
  if (std::fseek(output.get(), 0, SEEK_SET) != 0) fail("cannot read gnuplot's output again", errno);
  std::string picture;
  std::array<char, 65536> part{};
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), output.get()))
    picture.append(part.data(), count);
  if (std::ferror(output.get()) != 0) fail("cannot read gnuplot's picture", errno);
  return picture;
}

struct unit {
  const char* name;
  double size;
};

/// The largest unit of which `most` has at least two.
unit unit_for(double most, std::span<const unit> units) {
  const auto found = std::find_if(units.begin(), units.end() - 1,
                                  [most](unit each) { return most >= 2 * each.size; });
  return *found;
}

constexpr unit time_units[] = {{"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}};
constexpr unit memory_units[] = {
    {"GiB", double{GiB}}, {"MiB", double{MiB}}, {"KiB", double{KiB}}, {"B", 1}};

constexpr std::string_view title_mark = "hipvmm-replay-title";

std::string in_xml(std::string_view text) {
  std::string result;
  for (const char each : text) {
    const std::string_view named = each == '<'   ? "&lt;"
                                   : each == '>' ? "&gt;"
                                   : each == '&' ? "&amp;"
                                                 : "";
    named.empty() ? result += each : result += named;
  }
  return result;
}

}  // namespace

void require_gnuplot() { static_cast<void>(run_gnuplot("")); }

std::string draw_timeline(const std::string& title, const std::vector<replay_sample>& samples) {
  return with_title(run_gnuplot(timeline_script(samples)), title);
}

std::string with_title(std::string picture, const std::string& title) {
  const std::size_t mark = picture.find(title_mark);
  if (mark != std::string::npos) picture.replace(mark, title_mark.size(), in_xml(printable(title)));
  return picture;
}

std::string timeline_script(const std::vector<replay_sample>& samples) {
  std::size_t requested = 0;
  std::size_t held = 0;
  std::size_t mapped = 0;
  double first = samples.empty() ? 0 : samples.front().seconds;
  double last = samples.empty() ? 0 : samples.back().seconds;
  for (const replay_sample& each : samples) {
    requested = std::max(requested, each.requested);
    held = std::max(held, each.held.physical);
    mapped = std::max(mapped, each.held.mapped.value_or(0));
  }
  if (last <= first) last = first + 1e-6;
  const bool shows_mapped = !samples.empty() && samples.front().held.mapped.has_value();
  const auto most = static_cast<double>(std::max({requested, held, mapped, std::size_t{1}}));
  const unit time = unit_for(last - first, time_units);
  const unit memory = unit_for(most, memory_units);
  const auto height = [memory](std::size_t bytes) {
    return static_cast<double>(bytes) / memory.size;
  };

  std::ostringstream peaks;
  peaks << "peak requested " << format_bytes(requested) << ", peak held " << format_bytes(held);
  if (requested != 0)
    peaks << ": " << std::fixed << std::setprecision(3)
          << static_cast<double>(held) / static_cast<double>(requested) << " times as much";

  std::ostringstream script;
  script << std::setprecision(10);
  script << "set terminal svg size 960,520 noenhanced font 'sans,13' background '#ffffff'\n"
         << "set multiplot layout 1,1 title '" << title_mark << "' font 'sans,17'\n"
         << "set title '" << peaks.str() << "'\nset xlabel 'recorded time (" << time.name
         << ")'\nset ylabel 'device memory (" << memory.name << ")'\n"
         << "set xrange [0:" << (last - first) / time.size
         << "]\nset yrange [0:" << 1.05 * most / memory.size
         << "]\nset grid back\nset tics out nomirror\n"
         << "set key outside below horizontal Left reverse width 1\n";
  for (const std::size_t peak : {requested, held})
    script << "set arrow from graph 0, first " << height(peak) << " to graph 1, first "
           << height(peak) << " nohead front dt 3 lc rgb '#444444'\n";
  script << "$memory << END\n";
  const auto add_row = [&](double at, const replay_sample& of) {
    script << (at - first) / time.size << ' ' << height(of.requested) << ' '
           << height(of.held.physical) << ' ' << height(of.held.mapped.value_or(0)) << '\n';
  };
  for (const replay_sample& each : samples) add_row(each.seconds, each);
  if (!samples.empty()) add_row(last, samples.back());
  script << "END\nplot $memory using 1:3 with fillsteps fs solid fc rgb '#a6cee3' "
            "title 'held from the device (band: unused)', \\\n"
            "  $memory using 1:2 with fillsteps fs solid fc rgb '#fdbf6f' "
            "title 'requested by the program', \\\n"
            "  $memory using 1:3 with steps lw 1.5 lc rgb '#1f78b4' notitle, \\\n";
  if (shows_mapped)
    script << "  $memory using 1:4 with steps lw 1.2 dt 2 lc rgb '#111111' "
              "title 'mapped into its addresses', \\\n";
  script << "  $memory using 1:2 with steps lc rgb '#d95f02' notitle\nunset multiplot\n";
  return script.str();
}

}  // namespace hipvmm::tool

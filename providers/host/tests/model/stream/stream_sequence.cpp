// SPDX-License-Identifier: MIT
#include "stream_sequence.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "stream_lockstep.hpp"

namespace hipvmm::test::model {

namespace {

constexpr unsigned seconds_of_streams = 60;

std::string last_calls(const shared_log& log, const std::string& difference) {
  std::string text;
  const std::size_t first = log.made > shared_log::lines ? log.made - shared_log::lines : 0;
  for (std::size_t i = first; i < log.made; ++i)
    text.append("  ")
        .append(std::to_string(i + 1))
        .append(": ")
        .append(log.calls[i % shared_log::lines].data())
        .append("\n");
  return text.append("  ").append(difference).append("\n");
}

}  // namespace

stream_outcome run_stream_sequence(std::string_view profile, std::uint32_t seed,
                                   std::size_t count) {
  void* const memory = ::mmap(nullptr, sizeof(shared_log), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error{errno, std::generic_category(), "no memory for the sequence"};
  auto& log = *new (memory) shared_log{};
  std::fflush(nullptr);  // the child would write buffered text a second time
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error{errno, std::generic_category(), "no child process"};
  if (child == 0) {
    ::alarm(seconds_of_streams);
    for (const int each : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(each, SIG_DFL);  // doctest's
    try {
      stream_lockstep both{stream_rules_of(profile), seed, log};
      while (log.made < count && !both.differs()) both.step();
    } catch (const std::exception& error) {
      std::snprintf(log.difference.data(), log.difference.size(), "%s", error.what());
    }
    // Without the runtime's own end, which would wait for captures.
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string difference = log.difference.data();
  if (difference.empty() && WIFSIGNALED(status))
    difference = std::string{"the process was ended by "} + ::strsignal(WTERMSIG(status));
  stream_outcome ended{log.effects, log.refusals, {}};
  if (!difference.empty()) ended.difference = last_calls(log, difference);
  ::munmap(memory, sizeof(shared_log));
  return ended;
}

}  // namespace hipvmm::test::model

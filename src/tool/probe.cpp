// SPDX-License-Identifier: MIT
// hipvmm-probe DEVICE [--without NAME,... [--watch]]: asks what the library asks of a device, in a
// process that may crash or hang, and writes a line for each finding. Started by the library.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include <hipvmm/runtime/device.hpp>
#include "capability/probe_child.hpp"

namespace {

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Goes on in a child, whose end this process reports and takes for its own.
void watch_child() {
  const ::pid_t watching = ::getpid();
  const ::pid_t child = ::fork();
  if (child < 0) return;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != watching) ::_exit(1);
    return;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) hipvmm::detail::say_end_of_child(status);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

}  // namespace

int main(int argc, char** argv) {
  // To crash is part of the trade: no core, and no probe outlives who asked.
  constexpr rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Before the runtime is there, which a fork would lose.
  const bool watches = argc == 5 && std::string_view{argv[4]} == hipvmm::detail::watch_option;
  if (watches) watch_child();
  try {
    hipvmm::require_device(hipvmm::device_ref{0});
    const std::optional<int> device = argc > 1 ? number_in(argv[1]) : std::nullopt;
    const bool without = (argc == 4 || watches) && std::string_view{argv[2]} == "--without";
    if (!device || (argc != 2 && !without)) {
      std::fprintf(stderr, "usage: hipvmm-probe DEVICE [--without NAME,... [--watch]]\n");
      return 2;
    }
    hipvmm::detail::run_as_child(hipvmm::device_ref{*device}, without ? argv[3] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hipvmm-probe: %s\n", error.what());
    return 1;
  }
  // What probes have lost on purpose, and runtimes that hang at the end, are nobody's business.
  std::fflush(stdout);
  ::_exit(0);
}

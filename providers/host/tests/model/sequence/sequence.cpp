// SPDX-License-Identifier: MIT
#include "sequence.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <system_error>

#include <hipvmm/provider/host_control.h>

#include "operation_generator.hpp"
#include "providers/host/tests/model/lockstep/lockstep.hpp"

namespace hipvmm::test::model {
namespace {

constexpr std::size_t steps_between_comparisons = 50;
constexpr int most_replays = 800;
constexpr unsigned seconds_of_a_sequence = 120;
constexpr int most_replays_of_runtime = 250;  // which takes a third of a second to start

}  // namespace

struct sequence_runner::log {
  std::size_t count;
  kind_counts effects;
  kind_counts refusals;
  exclusion_counts left_out;
  std::array<char, 1024> difference;
  std::array<operation, longest_sequence> operations;
};

sequence_runner::sequence_runner(const machine& of, const model_rules& rules, provider_use use)
    : machine_{of}, rules_{rules}, use_{use} {
  void* const memory =
      ::mmap(nullptr, sizeof(log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error{errno, std::generic_category(), "no memory for the sequence"};
  log_ = new (memory) log{};
}

sequence_runner::~sequence_runner() { ::munmap(log_, sizeof(log)); }

template <class Next>
outcome sequence_runner::in_child(std::size_t count, Next next) const {
  log_->count = 0;
  log_->effects = {};
  log_->refusals = {};
  log_->left_out = {};
  log_->difference = {};
  // The child would write buffered text a second time.
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error{errno, std::generic_category(), "no child process"};
  if (child == 0) {
    // A call of AMD's that never returns is a difference too.
    if (use_ == provider_use::runtime) ::alarm(seconds_of_a_sequence);
    std::optional<std::string> difference;
    try {
      lockstep both{machine_, rules_, use_};
      for (std::size_t i = 0; i < count && !difference; ++i) {
        log_->operations[i] = next(both, i);
        log_->count = i + 1;
        difference = both.step(log_->operations[i]);
        log_->effects = both.effects();
        log_->refusals = both.refusals();
        log_->left_out = both.left_out();
        if (!difference && i % steps_between_comparisons == 0) difference = both.compare_all();
      }
      if (!difference) difference = both.compare_all();
      if (!difference) difference = both.give_back();
    } catch (const std::exception& error) {
      difference = error.what();
    }
    if (difference)
      std::snprintf(log_->difference.data(), log_->difference.size(), "%s", difference->c_str());
    // Random calls race in ways that a program may: the order checker's reports judge nothing here.
    hipvmm_host_clear_order_reports();
    std::exit(difference ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome ended{log_->difference.data(),
                {log_->operations.begin(),
                 log_->operations.begin() + static_cast<std::ptrdiff_t>(log_->count)},
                log_->effects,
                log_->refusals,
                log_->left_out};
  if (ended.difference.empty() && status != 0)
    ended.difference = WIFSIGNALED(status)
                           ? std::string{"the process was ended by "} + strsignal(WTERMSIG(status))
                           : "the process ended with " + std::to_string(WEXITSTATUS(status));
  return ended;
}

outcome sequence_runner::generated(std::uint32_t seed, std::size_t count) const {
  operation_generator generator{seed, reach::anything};
  return in_child(count, [&](const lockstep& both, std::size_t) { return generator.next(both); });
}

outcome sequence_runner::replayed(const std::vector<operation>& operations) const {
  return in_child(operations.size(), [&](const lockstep&, std::size_t i) { return operations[i]; });
}

/// Whether the same differs, apart from numbers.
bool is_alike(const outcome& one, const outcome& other) {
  const auto words = [](std::string text) {
    std::erase_if(text, [](unsigned char each) { return std::isxdigit(each) != 0; });
    return text;
  };
  if (one.difference.empty() || one.operations.empty()) return false;
  const bool has_crashed = other.difference.starts_with("the process");
  return words(one.difference) == words(other.difference) &&
         (!has_crashed || one.operations.back().what == other.operations.back().what);
}

outcome sequence_runner::shrunk(outcome failing) const {
  if (failing.difference.ends_with(strsignal(SIGALRM))) return failing;  // a replay takes as long
  int replays = 0;
  bool has_shrunk = true;
  const int most = use_ == provider_use::runtime ? most_replays_of_runtime : most_replays;
  for (std::size_t block = failing.operations.size(); block > 0 && replays < most;
       block = has_shrunk && block == 1 ? 1 : block / 2) {
    has_shrunk = false;
    for (std::size_t end = failing.operations.size(); end > 0 && replays < most;) {
      const std::size_t begin = end > block ? end - block : 0;
      std::vector<operation> fewer = failing.operations;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(begin),
                  fewer.begin() + static_cast<std::ptrdiff_t>(end));
      end = begin;
      ++replays;
      outcome again = replayed(fewer);
      if (!is_alike(again, failing)) continue;
      failing = std::move(again);
      end = std::min(end, failing.operations.size());
      has_shrunk = true;
    }
  }
  return failing;
}

std::string text_of(const outcome& failing, std::size_t most_lines) {
  std::ostringstream out;
  const std::size_t count = failing.operations.size();
  const std::size_t first = count > most_lines ? count - most_lines : 0;
  if (first > 0) out << "  ... " << first << " operations before\n";
  for (std::size_t i = first; i < count; ++i)
    out << "  " << i + 1 << ": " << text_of(failing.operations[i]) << "\n";
  out << "  " << failing.difference << "\n";
  return out.str();
}

}  // namespace hipvmm::test::model

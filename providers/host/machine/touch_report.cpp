// SPDX-License-Identifier: MIT
#include "machine/touch_report.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "machine/runtime.hpp"

namespace hipvmm::host_provider {
namespace {

struct sigaction handler_before {};  // written before ours is in force
std::atomic<bool> has_told{false};

/// A line made without calls that a handler of signals must not make.
class signal_safe_line {
 public:
  signal_safe_line& add(std::string_view text) noexcept {
    for (const char each : text) {
      if (used_ < text_.size()) text_[used_++] = each;
    }
    return *this;
  }
  signal_safe_line& add(std::uint64_t number, unsigned base) noexcept {
    std::array<char, 64> digits{};
    std::size_t first = digits.size();
    do {
      digits[--first] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    return add({digits.data() + first, digits.size() - first});
  }
  void write() const noexcept { static_cast<void>(::write(STDERR_FILENO, text_.data(), used_)); }

 private:
  std::array<char, 512> text_{};
  std::size_t used_ = 0;
};

/// Gives up after a time, because another thread may hold the map's lock, or this one if the
/// provider failed.
std::optional<address_map::touched> find_touched(address at) noexcept {
  runtime* const machine = runtime::existing();
  if (machine == nullptr) return std::nullopt;
  constexpr timespec a_moment{0, 1'000'000};
  for (int tries = 0; tries < 100; ++tries) {
    if (const auto found = machine->addresses().try_find_touched(at)) return *found;
    ::nanosleep(&a_moment, nullptr);
  }
  return std::nullopt;
}

void tell(address at, const address_map::touched& around) noexcept {
  signal_safe_line line;
  line.add("hipvmm host provider: host code touched 0x").add(at, 16);
  line.add(around.is_mapping ? ", device memory (mapping of " : ", addresses (reservation of ");
  line.add(around.bytes, 10);
  if (around.is_mapping) {
    line.add(" bytes");
    if (around.device >= 0)
      line.add(" of device ").add(static_cast<std::uint64_t>(around.device), 10);
    line.add(") to which the host has no such right: use copy_to_host() or hipMemcpy. ");
    line.add("HIPVMM_HOST_TOUCH=devices allows it, for code in place of a kernel.\n");
  } else {
    line.add(" bytes) at which nothing is mapped.\n");
  }
  line.write();
}

// A test framework reports the signal and raises it once more, without an address.
void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  const bool is_raised = info->si_code <= 0;
  if (!is_raised && !has_told.load()) {
    const auto at = reinterpret_cast<address>(info->si_addr);
    if (const auto around = find_touched(at)) {
      has_told = true;
      tell(at, *around);
    }
  }
  const bool is_over = is_raised && has_told.load();
  const auto handler = handler_before.sa_handler;
  if (!is_over && handler != SIG_DFL && handler != SIG_IGN) {
    const bool has_info = (handler_before.sa_flags & SA_SIGINFO) != 0;
    return has_info ? handler_before.sa_sigaction(signal, info, context) : handler(signal);
  }
  // The instruction runs again, and the signal ends the process.
  struct sigaction by_system {};
  by_system.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_system, nullptr);
  if (is_raised) ::raise(signal);
}

}  // namespace

void report_touches() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  struct sigaction now {};
  if (::sigaction(SIGSEGV, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
  handler_before = now;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & SA_NODEFER);
  ours.sa_mask = now.sa_mask;
  ::sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace hipvmm::host_provider

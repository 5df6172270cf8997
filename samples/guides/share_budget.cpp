// SPDX-License-Identifier: MIT
// Two processes that share a cap on a device's memory: one fills a cache with the rest, the
// other needs memory, and gets it from the cache.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <mutex>
#include <stdexcept>
#include <string>

namespace {

using hipvmm::MiB;

constexpr std::size_t limit = 64 * MiB;
constexpr std::size_t entry_bytes = 16 * MiB;

// Made before the processes part. One that is to be found by others has a name that they know.
const std::string budget_name = "share_budget-" + std::to_string(::getpid());

/// Results that can be computed again. Entries go when others need their memory.
class cache {
 public:
  explicit cache(hipvmm::device_ref device) : device_{device}, stream_{device} {}

  void add() {
    const std::lock_guard lock{mutex_};
    entries_.emplace_back(device_).resize(entry_bytes, 'x', stream_);
  }
  void evict(std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    for (std::size_t freed = 0; freed < bytes && !entries_.empty(); freed += entry_bytes)
      entries_.pop_front();  // released when the work that uses it is done
  }
  [[nodiscard]] std::size_t entries() {
    const std::lock_guard lock{mutex_};
    return entries_.size();
  }

 private:
  hipvmm::device_ref device_;
  hipvmm::stream stream_;
  std::mutex mutex_;
  std::deque<hipvmm::growable_device_vector<char>> entries_;
};

/// Writes or waits for one byte: the two take turns.
void tell(int descriptor) {
  if (::write(descriptor, "x", 1) != 1) throw std::runtime_error{"the other process has gone"};
}
void wait_for(int descriptor) {
  char byte = 0;
  if (::read(descriptor, &byte, 1) != 1) throw std::runtime_error{"the other process has gone"};
}

void run_cache(hipvmm::device_ref device, int from_other, int to_other) {
  cache entries{device};

  hipvmm::budget_options options;
  options.priority = -1;  // asked before others
  options.trim = [&](std::size_t bytes) { entries.evict(bytes); };
  hipvmm::memory_budget budget{device, budget_name, limit, options};

  for (std::size_t i = 0; i < limit / entry_bytes; ++i) entries.add();
  std::printf("the cache holds %s\n", hipvmm::format_bytes(budget.bytes()).c_str());
  std::fflush(stdout);
  tell(to_other);
  wait_for(from_other);
  std::printf("the cache has %zu entries left\n", entries.entries());
  std::fflush(stdout);
  tell(to_other);
  wait_for(from_other);
}

void run_needy(hipvmm::device_ref device, int from_other, int to_other) {
  tell(to_other);
  const hipvmm::stream stream{device};
  hipvmm::budget_options options;
  options.patience =
      std::chrono::seconds{20};  // for the cache, and for kernels that use its memory
  const hipvmm::memory_budget budget{device, budget_name, limit, options};
  wait_for(from_other);

  hipvmm::growable_device_vector<char> numbers{device};
  numbers.resize(40 * MiB, 'x', stream);  // the cache frees the missing bytes
  if (budget.report().bytes > limit) throw std::runtime_error{"they hold more than the limit"};
  tell(to_other);
  wait_for(from_other);

  try {
    numbers.resize(80 * MiB, 'x', stream);
    throw std::runtime_error{"it got more than the limit"};
  } catch (const hipvmm::out_of_memory& error) {
    std::printf("%s\n", error.what());
  }
  tell(to_other);
}

/// When nobody takes part any more. A budget that others look for is left there.
void remove_budget(hipvmm::device_ref device, int, int) {
  hipvmm::memory_budget::remove(budget_name, device.uuid());
}

int succeeds(const char* who, void (*work)(hipvmm::device_ref, int, int), int from_other,
             int to_other) {
  try {
    const hipvmm::device_ref device = hipvmm::device_ref::current();
    try {
      work(device, from_other, to_other);
    } catch (const hipvmm::unsupported& error) {  // a device without virtual memory
      std::fprintf(stderr, "share_budget: %s: %s\n", who, error.what());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "share_budget: %s: %s\n", who, error.what());
    return 1;
  }
}

}  // namespace

int main() {
  int down[2];
  int up[2];
  if (::pipe(down) != 0 || ::pipe(up) != 0) {
    std::perror("share_budget: pipe");
    return 1;
  }
  // Before the first HIP call: a runtime that is already running does not survive fork.
  const ::pid_t other = ::fork();
  if (other < 0) {
    std::perror("share_budget: fork");
    return 1;
  }
  if (other == 0) {
    ::close(down[1]);
    ::close(up[0]);
    // If no byte comes, the other process has said why.
    char has_device = 0;
    if (::read(down[0], &has_device, 1) != 1) return 1;
    return succeeds("cache", run_cache, down[0], up[1]);
  }
  ::close(down[0]);
  ::close(up[1]);
  const int failed = succeeds("needy", run_needy, up[0], down[1]);
  ::close(down[1]);
  int status = 0;
  if (::waitpid(other, &status, 0) != other || status != 0 || failed != 0) return 1;
  return succeeds("needy", remove_budget, -1, -1);
}

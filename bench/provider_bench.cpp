// SPDX-License-Identifier: MIT
// Measures the cost that the host provider adds to a program's HIP calls: beside the system calls
// that it cannot avoid, beside a queue that does nothing else, and with many mappings alive.
//
// The numbers that would change a decision: create, map, set access, unmap and release of 2 MiB
// above 25 us in all, or a fill whose submission takes above 2 us, not counting the system's time
// to wake a thread, mean that tests wait for the provider rather than for the program; a lookup
// among 10,000 live mappings above 3 searches in an ordered index of as many addresses means that
// more than the logarithm grows. --check makes each a failure.
#include <hip/hip_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "bench/support/report.hpp"
#include "provider_objects.hpp"

namespace {

using namespace bench;

constexpr double cycle_bar = 25e-6;
constexpr double submit_bar = 2e-6;
constexpr double search_bar = 3;

struct options {
  int runs = 5;
  int repeats = 40;
  std::size_t steps = 100;
  std::size_t most_mappings = 10'000;
  int device = 0;
  bool check = false;
  std::string csv;
};

struct method {
  const char* name;
  std::function<double()> run;  ///< the seconds of `steps` steps
};

/// Samples the methods in turns, every other time in reverse, so that drift in the machine touches
/// all of them. The first one is the baseline of the ratios.
std::vector<bench::measurement> measure(const std::string& scenario, std::size_t bytes,
                                        const std::vector<method>& methods, const options& chosen) {
  std::vector<bench::measurement> rows;
  for (const method& each : methods) {
    rows.push_back({scenario, each.name, chosen.steps, bytes});
    static_cast<void>(each.run());  // the first use of anything is slower
  }
  for (int sample = 0; sample < chosen.runs * chosen.repeats; ++sample) {
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const std::size_t at = sample % 2 == 0 ? i : methods.size() - 1 - i;
      rows[at].seconds.push_back(methods[at].run());
    }
  }
  const double baseline = bench::summarize(rows.front().seconds).median;
  for (bench::measurement& row : rows) row.ratio = bench::summarize(row.seconds).median / baseline;
  return rows;
}

// -- the cycle -----------------------------------------------------------------------------------

enum class step { create, map, set_access, unmap, release, all };

/// Cycles of which one step is timed, or all of them.
double cycle(const addresses& where, step timed, const options& chosen) {
  const hipMemAccessDesc open = open_to(chosen.device);
  stopwatch watch;
  hipMemGenericAllocationHandle_t handle = nullptr;
  const auto perform = [&](step which, auto action) {
    if (which == timed) watch.start();
    action();
    if (which == timed) watch.stop();
  };
  for (std::size_t i = 0; i < chosen.steps; ++i) {
    if (timed == step::all) watch.start();
    perform(step::create, [&] { handle = make_chunk(chosen.device); });
    perform(step::map, [&] { MUST(hipMemMap, where.at(), chunk_bytes, 0, handle, 0); });
    perform(step::set_access, [&] { MUST(hipMemSetAccess, where.at(), chunk_bytes, &open, 1); });
    perform(step::unmap, [&] { MUST(hipMemUnmap, where.at(), chunk_bytes); });
    perform(step::release, [&] { MUST(hipMemRelease, handle); });
    if (timed == step::all) watch.stop();
  }
  return watch.seconds();
}

/// The least that a cycle can be made of.
class raw_cycle {
 public:
  raw_cycle() : file_{::memfd_create("provider_bench", MFD_CLOEXEC)} {
    if (file_ < 0 || ::ftruncate(file_, chunk_bytes) != 0)
      throw std::runtime_error{"no memory file of 2 MiB can be had for the baseline"};
  }
  raw_cycle(const raw_cycle&) = delete;
  raw_cycle& operator=(const raw_cycle&) = delete;
  ~raw_cycle() { ::close(file_); }

  [[nodiscard]] double run(std::size_t steps) const {
    stopwatch watch;
    watch.start();
    for (std::size_t i = 0; i < steps; ++i) {
      void* const at = ::mmap(nullptr, chunk_bytes, PROT_NONE, MAP_SHARED, file_, 0);
      if (at == MAP_FAILED || ::mprotect(at, chunk_bytes, PROT_READ | PROT_WRITE) != 0 ||
          ::munmap(at, chunk_bytes) != 0)
        throw std::runtime_error{"the system refuses a mapping of 2 MiB for the baseline"};
    }
    watch.stop();
    return watch.seconds();
  }

 private:
  int file_;
};

std::vector<bench::measurement> measure_cycle(const options& chosen) {
  const addresses where{chunk_bytes};
  const raw_cycle raw;
  const auto timed = [&](step which) { return [&, which] { return cycle(where, which, chosen); }; };
  return measure("2 MiB cycle", chunk_bytes,
                 {{"mmap calls", [&] { return raw.run(chosen.steps); }},
                  {"cycle", timed(step::all)},
                  {"create", timed(step::create)},
                  {"map", timed(step::map)},
                  {"set access", timed(step::set_access)},
                  {"unmap", timed(step::unmap)},
                  {"release", timed(step::release)}},
                 chosen);
}

// -- submitting ----------------------------------------------------------------------------------

double push_to_queue(std::size_t steps) {
  std::mutex mutex;
  std::deque<plain_worker::work> queue;
  stopwatch watch;
  watch.start();
  for (std::size_t i = 0; i < steps; ++i) {
    const std::lock_guard lock{mutex};
    queue.push_back({&queue, 64, static_cast<int>(i)});
  }
  watch.stop();
  return watch.seconds();
}

/// One call at a time, on an idle stream; the work that it leaves is not timed.
template <class Stream, class Call>
double on_idle(Stream& on, std::size_t steps, Call call) {
  stopwatch watch;
  for (std::size_t i = 0; i < steps; ++i) {
    watch.start();
    call();
    watch.stop();
    on.wait();
  }
  return watch.seconds();
}

/// One call after the other, while the stream does its work.
template <class Call>
double on_draining(const stream& on, std::size_t steps, Call call) {
  stopwatch watch;
  watch.start();
  for (std::size_t i = 0; i < steps; ++i) call();
  watch.stop();
  on.wait();
  return watch.seconds();
}

template <class Call>
double on_busy(const stream& on, std::size_t steps, Call call) {
  const busy kept{on};
  stopwatch watch;
  watch.start();
  for (std::size_t i = 0; i < steps; ++i) call();
  watch.stop();
  return watch.seconds();
}

std::vector<bench::measurement> measure_submitting(const options& chosen) {
  constexpr std::size_t bytes = 64;
  const stream on;
  plain_worker worker;
  void* memory = nullptr;
  hipEvent_t event = nullptr;
  MUST(hipMalloc, &memory, bytes);
  MUST(hipEventCreateWithFlags, &event, hipEventDisableTiming);
  const auto push = [&] { worker.push({memory, bytes, 1}); };
  const auto fill = [&] { MUST(hipMemsetAsync, memory, 1, bytes, on.get()); };
  const auto record = [&] { MUST(hipEventRecord, event, on.get()); };
  const auto wait = [&] { MUST(hipStreamWaitEvent, on.get(), event, 0); };
  const auto record_and_wait = [&] {
    MUST(hipEventRecord, event, on.get());
    MUST(hipEventSynchronize, event);
  };
  const auto allocate = [&] {
    void* block = nullptr;
    MUST(hipMallocAsync, &block, std::size_t{64} << 10U, on.get());
    MUST(hipFreeAsync, block, on.get());
  };
  const std::size_t n = chosen.steps;
  std::vector<bench::measurement> rows =
      measure("submit", bytes,
              {{"queue push", [&] { return push_to_queue(n); }},
               {"queue wake", [&] { return on_idle(worker, n, push); }},
               {"fill, idle", [&] { return on_idle(on, n, fill); }},
               {"fill, busy", [&] { return on_busy(on, n, fill); }},
               {"fill, again", [&] { return on_draining(on, n, fill); }},
               {"record", [&] { return on_busy(on, n, record); }},
               {"wait event", [&] { return on_busy(on, n, wait); }},
               {"record+sync", [&] { return on_idle(on, n, record_and_wait); }},
               {"alloc+free", [&] { return on_busy(on, n, allocate); }}},
              chosen);
  MUST(hipEventDestroy, event);
  MUST(hipFree, memory);
  return rows;
}

// -- lookups -------------------------------------------------------------------------------------

/// One chunk mapped many times over: its neighbours begin at the same byte of the file, so the
/// system keeps every one for itself, as it does those of chunks that were made out of order.
class many_mappings {
 public:
  many_mappings(std::size_t count, int device) : where_{count * chunk_bytes}, count_{count} {
    const hipMemGenericAllocationHandle_t handle = make_chunk(device);
    const hipMemAccessDesc open = open_to(device);
    for (std::size_t i = 0; i < count; ++i) MUST(hipMemMap, at(i), chunk_bytes, 0, handle, 0);
    MUST(hipMemSetAccess, at(0), count * chunk_bytes, &open, 1);
    MUST(hipMemRelease, handle);
    for (std::size_t i = 0; i < count; ++i) index_.emplace(at(i), i);
  }
  many_mappings(const many_mappings&) = delete;
  many_mappings& operator=(const many_mappings&) = delete;
  ~many_mappings() { static_cast<void>(hipMemUnmap(at(0), count_ * chunk_bytes)); }

  [[nodiscard]] std::byte* at(std::size_t i) const { return where_.at(i * chunk_bytes); }
  /// A byte somewhere in the `i`th of an order that jumps about.
  [[nodiscard]] std::byte* jump(std::size_t i) const { return at(i * 7919 % count_) + 64; }
  /// The least work of a lookup: a search for the address in an ordered index under a mutex.
  [[nodiscard]] std::size_t search(std::byte* address) {
    const std::lock_guard lock{mutex_};
    return std::prev(index_.upper_bound(address))->second;
  }

 private:
  addresses where_;
  std::size_t count_;
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> index_;
};

std::vector<bench::measurement> measure_lookups(std::size_t count, const options& chosen) {
  many_mappings all{count, chosen.device};
  const stream on;
  const hipMemLocation location{hipMemLocationTypeDevice, chosen.device};
  std::size_t next = 0;
  const auto timed = [&](auto call) {
    return [&, call] {
      stopwatch watch;
      watch.start();
      for (std::size_t i = 0; i < chosen.steps; ++i) call(all.jump(next++));
      watch.stop();
      return watch.seconds();
    };
  };
  volatile std::size_t found = 0;
  return measure(std::to_string(count) + " live", count * chunk_bytes,
                 {{"search", timed([&](std::byte* at) { found = all.search(at); })},
                  {"attributes", timed([&](std::byte* at) {
                     hipPointerAttribute_t attributes{};
                     MUST(hipPointerGetAttributes, &attributes, at);
                   })},
                  {"access", timed([&](std::byte* at) {
                     unsigned long long flags = 0;
                     MUST(hipMemGetAccess, &flags, &location, at);
                   })},
                  {"fill",
                   [&] {
                     return on_busy(on, chosen.steps, [&] {
                       MUST(hipMemsetAsync, all.jump(next++), 1, 1, on.get());
                     });
                   }}},
                 chosen);
}

// -- the bars ------------------------------------------------------------------------------------

double of_one_step(const bench::measurement& row) {
  return bench::summarize(row.seconds).median / static_cast<double>(row.steps);
}

const bench::measurement* find(const std::vector<bench::measurement>& rows,
                               const std::string& scenario, const std::string& method) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const bench::measurement& row) {
    return row.scenario == scenario && row.method == method;
  });
  return found == rows.end() ? nullptr : &*found;
}

/// Says which bars were missed; returns whether all were met.
bool meets_bars(const std::vector<bench::measurement>& rows, const options& chosen) {
  bool met = true;
  const auto at_most = [&](const char* scenario, const char* method, double bar) {
    const double seconds = of_one_step(*find(rows, scenario, method));
    if (seconds <= bar) return;
    std::fprintf(stderr, "provider_bench: %s: %s takes %.2f us, the bar is %.2f us\n", scenario,
                 method, seconds * 1e6, bar * 1e6);
    met = false;
  };
  at_most("2 MiB cycle", "cycle", cycle_bar);
  at_most("submit", "fill, busy", submit_bar);
  at_most("submit", "fill, again", submit_bar);
  // Waking a thread is the system's part.
  const double wake = of_one_step(*find(rows, "submit", "queue wake"));
  at_most("submit", "fill, idle", submit_bar + wake);
  const std::string most = std::to_string(chosen.most_mappings) + " live";
  for (const char* const method : {"attributes", "access", "fill"}) {
    const double ratio = *find(rows, most, method)->ratio;
    if (ratio <= search_bar) continue;
    std::fprintf(stderr,
                 "provider_bench: %s: costs %.2f times a search with %zu mappings, the bar is "
                 "%.0f\n",
                 method, ratio, chosen.most_mappings, search_bar);
    met = false;
  }
  return met;
}

int run(const options& chosen, int argc, char** argv) {
  // Tells of a machine without a device in the words that all programs use.
  hipvmm::require_device(hipvmm::device_ref{chosen.device});
  MUST(hipSetDevice, chosen.device);
  const bench::origin origin = bench::describe_origin(
      std::string{HIPVMM_PROVIDER_NAME} + ", device " + std::to_string(chosen.device), argc, argv);
  std::printf("%s | %s | %s\n%s\n\n", origin.date.c_str(), origin.machine.c_str(),
              origin.provider.c_str(), origin.command.c_str());
  std::vector<bench::measurement> rows;
  const auto add = [&](std::vector<bench::measurement> more) {
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  };
  add(measure_cycle(chosen));
  add(measure_submitting(chosen));
  for (std::size_t count = 10; count < chosen.most_mappings; count *= 10)
    add(measure_lookups(count, chosen));
  add(measure_lookups(chosen.most_mappings, chosen));
  bench::print_table(rows);
  if (!chosen.csv.empty()) bench::write_csv(chosen.csv, origin, rows);
  return meets_bars(rows, chosen) || !chosen.check ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures what the provider adds to HIP calls beside what cannot be avoided.",
               "provider_bench"};
  options chosen;
  app.add_option("--runs", chosen.runs, "Runs, in each of which the methods take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--repeats", chosen.repeats, "Samples of each method in each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--steps", chosen.steps, "Calls, or cycles, in each sample")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--most-mappings", chosen.most_mappings, "Most mappings to have alive")
      ->check(CLI::Range(10, 60000))
      ->capture_default_str();
  app.add_option("--device", chosen.device, "Device to measure")->capture_default_str();
  app.add_option("--csv", chosen.csv, "Write the figures to this file");
  app.add_flag("--check", chosen.check, "Fail when a bar is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(chosen, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "provider_bench: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: MIT
// Replays a trace of allocations against the pool's books with no memory behind them, in seconds:
// how much memory would the pool hold, and how long would HIP's calls take? For changes of the
// pool's policy. The trace: CSV, gzip'ed or not, `Thread,Time,Action,Pointer,Size,Stream`, times in
// microseconds.
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mr/pool/allocator/block_allocator.hpp"

namespace {

using namespace hipvmm::mr::pool;

double now = 0;  // microseconds
bool serving = false;

/// Chunks that only cost time: what the calls took on an H200.
class costly_memory final : public memory_backend {
 public:
  /// With `ahead` the next chunk is made beforehand, in the size of the last.
  costly_memory(bool aliases, bool ahead) : aliases_{aliases}, ahead_{ahead} {}
  [[nodiscard]] std::size_t address_bytes() const override { return std::size_t{1} << 40; }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{2} << 20; }
  [[nodiscard]] bool has_aliases() const override { return aliases_; }
  void create(std::size_t, std::size_t bytes) override {
    microseconds += map_cost;
    const auto kept = set_aside_.find(bytes);
    if (kept != set_aside_.end()) {
      set_aside_.erase(kept);
      return;
    }
    ++created;
    held_ += bytes;
    if (ready_ == bytes) {
      ++found_ready;
    } else {
      microseconds += create_cost;
    }
    if (ahead_) ready_ = bytes;
    held_high = std::max(held_high, held_ + ready_);
  }
  void set_aside(std::size_t, std::size_t bytes) override {
    microseconds += unmap_cost;
    ++moved;
    set_aside_.insert(bytes);
  }
  void release_set_aside() noexcept override {
    for (const std::size_t each : set_aside_) held_ -= each;
    set_aside_.clear();
  }
  void alias(std::size_t, std::size_t, std::size_t) override {
    microseconds += map_cost;
    ++moved;
  }
  [[nodiscard]] std::unique_ptr<detached> detach(std::size_t, std::size_t bytes) override {
    return std::make_unique<detached_chunk>(*this, bytes);
  }
  [[nodiscard]] std::unique_ptr<detached> detach_old_address(std::size_t) override {
    return std::make_unique<detached_chunk>(*this, 0);
  }

  double microseconds = 0;             ///< of requests
  double background_microseconds = 0;  ///< of unmapping
  std::uint64_t created = 0;
  std::uint64_t moved = 0;
  std::uint64_t found_ready = 0;
  std::size_t held_high = 0;  ///< with what is ready

 private:
  struct detached_chunk final : detached {
    detached_chunk(costly_memory& memory, std::size_t held) : all{memory}, bytes{held} {}
    [[nodiscard]] bool release() noexcept override {
      (serving ? all.microseconds : all.background_microseconds) += unmap_cost;
      all.held_ -= bytes;
      return true;
    }
    costly_memory& all;
    std::size_t bytes;  // 0: an old address
  };
  static constexpr double create_cost = 15;
  static constexpr double map_cost = 34;
  static constexpr double unmap_cost = 21;
  bool aliases_;
  bool ahead_;
  std::size_t held_ = 0;
  std::size_t ready_ = 0;
  std::multiset<std::size_t> set_aside_;
};

/// Streams that pass a mark some time after it was made.
class late_streams final : public fence_source {
 public:
  explicit late_streams(double lag) : lag_{lag} {}
  [[nodiscard]] std::shared_ptr<const fence> fence_for(hipvmm::stream_ref) override {
    ++marks;
    return std::make_shared<late_mark>(*this, now + lag_);
  }
  [[nodiscard]] std::shared_ptr<const fence> fence_for_all() override {
    return fence_for(hipvmm::stream_ref::legacy_default());
  }
  void synchronize() override {}
  std::uint64_t marks = 0;
  std::uint64_t waits = 0;

 private:
  struct late_mark final : fence {
    late_mark(late_streams& all, double passes) : streams{all}, at{passes} {}
    [[nodiscard]] bool is_done() const override { return now >= at; }
    void synchronize() const override {}
    [[nodiscard]] bool make_stream_wait(hipvmm::stream_ref) const override {
      ++streams.waits;
      return true;
    }
    late_streams& streams;
    double at;
  };
  double lag_;
};

struct options {
  std::string trace;
  bool one_stream = false;
  bool aliases = false;
  bool ahead = false;
  double lag = 0;
  int epochs = 1;
  int unmap_delay = 0;
  std::size_t largest_chunk = 0;  // MiB
  unsigned seed = 0;
};

struct event {
  double time;
  bool allocates;
  std::size_t name;   ///< which allocation of the trace
  std::size_t bytes;  ///< that the program asked for
  ihipStream_t* stream;
};

std::vector<event> read_events(const std::string& trace, bool one_stream) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file{gzopen(trace.c_str(), "rb"), gzclose};
  if (!file) throw std::runtime_error{"cannot open " + trace};
  std::vector<event> events;
  std::unordered_map<unsigned long long, std::size_t> live;
  char line[256];
  gzgets(file.get(), line, sizeof line);
  for (std::uint64_t row = 2; gzgets(file.get(), line, sizeof line) != nullptr; ++row) {
    long thread = 0;
    char action[16];
    unsigned long long pointer = 0;
    std::uintptr_t stream = 0;
    event next{};
    const std::string where = trace + ", row " + std::to_string(row) + ": ";
    if (std::sscanf(line, "%ld,%lf,%15[^,],%llx,%zu,%zu", &thread, &next.time, action, &pointer,
                    &next.bytes, &stream) != 6)
      throw std::runtime_error{where + "not an event: " + line};
    next.allocates = action[0] == 'a';
    next.stream = reinterpret_cast<ihipStream_t*>(one_stream ? 16 : 16 + stream);
    if (next.allocates) {
      next.name = live[pointer] = events.size();
    } else {
      const auto one = live.find(pointer);
      if (one == live.end()) throw std::runtime_error{where + "nothing lives at that pointer"};
      next.name = one->second;
      live.erase(one);
    }
    events.push_back(next);
  }
  return events;
}

/// The pool as programs use it, with times of its own calls.
class driver {
 public:
  driver(block_allocator& pool, std::vector<event> events)
      : pool_{pool}, events_{std::move(events)}, offsets_(events_.size(), gone) {}

  /// Three blocks that stay, up to 8 MiB: another layout for the same program.
  void keep_blocks(unsigned seed) {
    std::mt19937 random{seed};
    for (int i = 0; i < 3; ++i) {
      const std::size_t bytes = (random() % 32768 + 1) * 256;
      if (!pool_.allocate(pool_.state_of(first_stream()), bytes, 256))
        throw std::runtime_error{"out of memory for the blocks of a seed"};
      requested_ += bytes;
    }
  }
  /// All events once, and then a free of what is left. Returns the nanoseconds of each allocation.
  std::vector<double> run_epoch() {
    std::vector<double> times;
    const double begin = now;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      now = begin + events_[i].time;
      if (events_[i].allocates) {
        serving = true;
        times.push_back(allocate(i));
        serving = false;
        // A pool leaves that to a thread of its own, which comes a little later.
        if (pool_.has_old_addresses() && ++waiting_ > unmap_delay) {
          pool_.unmap_old_addresses();
          waiting_ = 0;
        }
      } else {
        deallocate(i, events_[i].name);
      }
    }
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (events_[i].allocates && offsets_[i] != gone) deallocate(i, i);
    return times;
  }
  double deallocate_ns = 0;
  int unmap_delay = 0;   ///< allocations until old addresses are unmapped
  std::size_t peak = 0;  ///< bytes asked for

 private:
  static constexpr std::size_t gone = static_cast<std::size_t>(-1);
  using clock = std::chrono::steady_clock;
  static double since(clock::time_point start) {
    return std::chrono::duration<double, std::nano>(clock::now() - start).count();
  }
  static hipvmm::stream_ref first_stream() {
    return hipvmm::stream_ref{reinterpret_cast<ihipStream_t*>(16)};
  }
  static std::size_t held(const event& of) {
    return of.bytes == 0 ? block_allocator::unit : (of.bytes + 255) / 256 * 256;
  }

  double allocate(std::size_t which) {
    const event& of = events_[which];
    const std::size_t bytes = held(of);
    const auto start = clock::now();
    const auto user = pool_.small_user_of(hipvmm::stream_ref{of.stream});
    const bool is_small = bytes <= largest_small_block;
    const std::size_t cached = is_small ? pool_.cached_small_block(user, classes.of(bytes))
                                        : pool_.cached_block(user, bytes);
    const auto offset = cached != thread_cache::npos ? cached
                        : is_small ? pool_.allocate_small_block(user, classes.of(bytes))
                                   : pool_.allocate_block(user, bytes);
    const double time = since(start);
    if (!offset) throw std::runtime_error{"out of memory at event " + std::to_string(which)};
    offsets_[which] = *offset;
    requested_ += of.bytes;
    peak = std::max(peak, requested_);
    return time;
  }
  void deallocate(std::size_t by, std::size_t which) {
    const std::size_t bytes = held(events_[which]);
    const std::size_t offset = offsets_[which];
    const auto start = clock::now();
    const auto user = pool_.small_user_of(hipvmm::stream_ref{events_[by].stream});
    const bool taken = bytes <= largest_small_block
                           ? pool_.deallocate_small_block(user, classes.of(bytes), offset)
                           : pool_.deallocate_block(user, offset, bytes) ||
                                 pool_.deallocate(*user.state, offset, bytes);
    deallocate_ns += since(start);
    if (!taken) throw std::runtime_error{"the pool refuses what it gave"};
    requested_ -= events_[which].bytes;
    offsets_[which] = gone;
  }

  block_allocator& pool_;
  std::vector<event> events_;
  std::vector<std::size_t> offsets_;
  std::size_t requested_ = 0;
  int waiting_ = 0;
};

int simulate(const options& chosen) {
  costly_memory memory{chosen.aliases, chosen.ahead};
  late_streams streams{chosen.lag};
  block_allocator pool{memory, streams, std::uintptr_t{1} << 40};
  if (chosen.largest_chunk != 0) pool.set_largest_chunk(chosen.largest_chunk << 20U);
  driver program{pool, read_events(chosen.trace, chosen.one_stream)};
  program.unmap_delay = chosen.unmap_delay;
  if (chosen.seed != 0) program.keep_blocks(chosen.seed);
  std::printf("%s\n", chosen.trace.c_str());
  for (int epoch = 0; epoch < chosen.epochs; ++epoch) {
    const double before = memory.microseconds;
    const double unmapped = memory.background_microseconds;
    const std::uint64_t created = memory.created;
    const std::uint64_t moved = memory.moved;
    const std::uint64_t marks = streams.marks;
    const std::uint64_t waits = streams.waits;
    const double began = now;
    program.deallocate_ns = 0;
    std::vector<double> times = program.run_epoch();
    const double all = std::accumulate(times.begin(), times.end(), 0.0);
    std::sort(times.begin(), times.end());
    const auto at = [&times](double share) {
      return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
    };
    std::printf(
        "  epoch %d: peak physical / peak requested %.4f, HIP's calls %.1f ms, %.2f %% of the "
        "time, unmapping in the background %.1f ms; "
        "%llu chunks created, %llu moved, %llu marks, %llu waits; this code: allocate %.1f ms, p50 "
        "%.0f ns, p99 %.0f ns, longest %.0f us, deallocate %.1f ms\n",
        epoch + 1, static_cast<double>(memory.held_high) / static_cast<double>(program.peak),
        (memory.microseconds - before) / 1000, 100 * (memory.microseconds - before) / (now - began),
        (memory.background_microseconds - unmapped) / 1000,
        static_cast<unsigned long long>(memory.created - created),
        static_cast<unsigned long long>(memory.moved - moved),
        static_cast<unsigned long long>(streams.marks - marks),
        static_cast<unsigned long long>(streams.waits - waits), all / 1e6, at(0.5), at(0.99),
        at(1) / 1e3, program.deallocate_ns / 1e6);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"What a trace would cost the pool"};
  options chosen;
  program.add_option("trace", chosen.trace, "CSV file, gzip'ed or not")->required();
  program.add_flag("--one-stream", chosen.one_stream, "take all streams for one");
  program.add_flag("--aliases", chosen.aliases, "one chunk may have two addresses");
  program.add_flag("--ahead", chosen.ahead, "one chunk is made before it is needed");
  program.add_option("--epochs", chosen.epochs, "times to run it, all freed between");
  program.add_option("--unmap-delay", chosen.unmap_delay,
                     "allocations until old addresses are unmapped");
  program.add_option("--largest-chunk", chosen.largest_chunk, "MiB of a new chunk at most");
  program.add_option("--seed", chosen.seed, "three blocks of random sizes stay from the start");
  program.add_option("--lag", chosen.lag, "microseconds until a stream passes a mark");
  CLI11_PARSE(program, argc, argv);
  try {
    return simulate(chosen);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate_pool: %s\n", error.what());
    return 1;
  }
}

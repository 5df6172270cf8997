// SPDX-License-Identifier: MIT
// Replays a trace of allocations against the pool's books with no memory behind them, in seconds:
// how much memory would the pool hold, which calls of HIP would it make, and at which cost? For
// changes of the pool's policy. The trace: CSV, gzip'ed or not,
// `Thread,Time,Action,Pointer,Size,Stream`, times in microseconds.
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
#include "mr/pool/allocator/caching_allocator.hpp"
#include "mr/pool/allocator/traced_events.hpp"

namespace {

using namespace hipvmm::mr::pool;
using namespace hipvmm::test;

double now = 0;  // microseconds

/// Calls of HIP, and the bytes of those whose time depends on them.
struct call_counts {
  std::uint64_t create = 0, map = 0, access = 0, unmap = 0, malloc = 0;
  std::size_t created_bytes = 0, mapped_bytes = 0;

  friend call_counts operator-(const call_counts& a, const call_counts& b) {
    return {a.create - b.create,
            a.map - b.map,
            a.access - b.access,
            a.unmap - b.unmap,
            a.malloc - b.malloc,
            a.created_bytes - b.created_bytes,
            a.mapped_bytes - b.mapped_bytes};
  }
};

/// Microseconds of a call, and of a GiB of it.
struct price_list {
  const char* name;
  double create, create_gib, map, access, access_gib, unmap, malloc;

  [[nodiscard]] double milliseconds(const call_counts& calls) const {
    constexpr double gib = 1ULL << 30U;
    return (create * static_cast<double>(calls.create) +
            create_gib * static_cast<double>(calls.created_bytes) / gib +
            map * static_cast<double>(calls.map) + access * static_cast<double>(calls.access) +
            access_gib * static_cast<double>(calls.mapped_bytes) / gib +
            unmap * static_cast<double>(calls.unmap) + malloc * static_cast<double>(calls.malloc)) /
           1000;
  }
};
/// Measured on an H100; kvcached's figures of an A100; bounds of the reported times of AMD's calls,
/// which no hardware of ours has shown (docs/design/pool_figures.md).
/// hipMalloc: half of the calls of GPT training on an H200, for the A100 too.
constexpr price_list price_lists[] = {{"H100", 15, 50, 1, 30, 35, 21, 78},
                                      {"A100", 193, 0, 1.45, 36, 0, 26, 78},
                                      {"AMD low", 50, 0, 50, 100, 0, 200, 100},
                                      {"AMD high", 200, 0, 300, 700, 0, 1000, 300}};

/// Chunks that only count the calls that they cost.
class counted_memory final : public memory_backend {
 public:
  counted_memory(bool aliases, bool equal)
      : memory_backend{{.address_bytes = std::size_t{1} << 40,
                        .granularity = std::size_t{2} << 20,
                        .has_equal_chunks = equal,
                        .has_aliases = aliases}} {}
  void create(std::size_t offset, std::size_t bytes, std::size_t chunk) override {
    for (std::size_t at = 0; at < bytes; at += chunk) {
      const std::size_t size = std::min(chunk, bytes - at);
      add_map(offset + at, size);
      const auto kept = set_aside_.find(size);
      if (kept != set_aside_.end()) {
        set_aside_.erase(kept);
        continue;
      }
      ++calls.create;
      calls.created_bytes += size;
      held_ += size;
    }
    held_high = std::max(held_high, held_);
    add_rights(bytes, (bytes + chunk - 1) / chunk);
  }
  void set_aside(std::size_t offset, std::size_t bytes) override {
    const std::size_t end = offset + bytes;
    for (; offset != end; ++calls.unmap) {
      set_aside_.insert(chunks_.at(offset));
      offset += chunks_.at(offset);
    }
  }
  void release_set_aside() noexcept override {
    for (const std::size_t each : set_aside_) held_ -= each;
    set_aside_.clear();
  }
  void alias(const std::vector<std::size_t>& from, std::size_t to) override {
    const std::size_t start = to;
    for (const std::size_t each : from) {
      const std::size_t bytes = chunks_.at(each);
      add_map(to, bytes);
      to += bytes;
    }
    add_rights(to - start, from.size());
  }
  [[nodiscard]] std::unique_ptr<pending_release> detach(std::size_t, std::size_t bytes) override {
    return std::make_unique<detached_chunk>(*this, bytes);
  }
  [[nodiscard]] std::unique_ptr<pending_release> detach_old_mapping(std::size_t) override {
    return std::make_unique<detached_chunk>(*this, 0);
  }

  call_counts calls;
  std::size_t held_high = 0;

 private:
  struct detached_chunk final : pending_release {
    detached_chunk(counted_memory& memory, std::size_t held) : all{memory}, bytes{held} {}
    [[nodiscard]] bool release(chunk_gift*) noexcept override {
      ++all.calls.unmap;
      all.held_ -= bytes;
      return true;
    }
    counted_memory& all;
    std::size_t bytes;  // 0: an old address
  };
  void add_map(std::size_t offset, std::size_t bytes) {
    chunks_[offset] = bytes;
    ++calls.map;
  }
  /// By one call for neighbours, as region/map_runs has it.
  void add_rights(std::size_t bytes, std::size_t count) {
    constexpr std::size_t most = 64;
    calls.access += (count + most - 1) / most;
    calls.mapped_bytes += bytes;
  }
  std::size_t held_ = 0;
  std::multiset<std::size_t> set_aside_;
  std::unordered_map<std::size_t, std::size_t> chunks_;  // bytes by offset, old addresses too
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
  std::string rival;
  bool one_stream = false;
  bool aliases = false;
  bool equal_chunks = false;
  double lag = 0;
  int epochs = 1;
  int unmap_delay = 0;
  std::size_t largest_chunk = 0;  // MiB
  std::size_t limit = 64;         // GiB
  unsigned seed = 0;
  std::uint64_t most_calls = 0;  // calls of all epochs but creations; 0: any number
};

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
      if (!pool_.allocate(pool_.state_of(first_stream()), {bytes, 256}))
        throw std::runtime_error{"out of memory for the blocks of a seed"};
      requested_ += bytes;
    }
  }
  /// All events once, and then a free of all others. Returns the nanoseconds of each allocation.
  std::vector<double> run_epoch() {
    std::vector<double> times;
    const double begin = now;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      now = begin + events_[i].time;
      if (events_[i].allocates) {
        times.push_back(allocate(i));
        // A pool leaves that to a thread of its own, which comes a little later.
        if (pool_.has_addresses_to_unmap() && ++waiting_ > unmap_delay) {
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
    const auto user = pool_.cache_user_of(hipvmm::stream_ref{of.stream});
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
    const auto user = pool_.cache_user_of(hipvmm::stream_ref{events_[by].stream});
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
  counted_memory memory{chosen.aliases, chosen.equal_chunks};
  late_streams streams{chosen.lag};
  block_allocator pool{memory, streams, std::uintptr_t{1} << 40};
  pool.set_limit(chosen.limit << 30U);
  if (chosen.largest_chunk != 0) pool.set_largest_chunk(chosen.largest_chunk << 20U);
  driver program{pool, events_of(chosen.trace, chosen.one_stream)};
  program.unmap_delay = chosen.unmap_delay;
  if (chosen.seed != 0) program.keep_blocks(chosen.seed);
  std::printf("%s\n", chosen.trace.c_str());
  for (int epoch = 0; epoch < chosen.epochs; ++epoch) {
    const call_counts before = memory.calls;
    const std::uint64_t marks = streams.marks;
    const std::uint64_t waits = streams.waits;
    program.deallocate_ns = 0;
    std::vector<double> times = program.run_epoch();
    const call_counts calls = memory.calls - before;
    const double all = std::accumulate(times.begin(), times.end(), 0.0);
    std::sort(times.begin(), times.end());
    const auto at = [&times](double share) {
      return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
    };
    std::printf(
        "  epoch %d: peak physical / peak requested %.4f, %llu chunks created, %llu maps, "
        "%llu rights, %llu unmaps, %llu marks, %llu waits; ms of calls:",
        epoch + 1, static_cast<double>(memory.held_high) / static_cast<double>(program.peak),
        static_cast<unsigned long long>(calls.create), static_cast<unsigned long long>(calls.map),
        static_cast<unsigned long long>(calls.access), static_cast<unsigned long long>(calls.unmap),
        static_cast<unsigned long long>(streams.marks - marks),
        static_cast<unsigned long long>(streams.waits - waits));
    for (const price_list& each : price_lists)
      std::printf(" %s %.1f,", each.name, each.milliseconds(calls));
    std::printf(
        " this code: allocate %.1f, p50 %.0f ns, p99 %.0f ns, longest %.0f us, deallocate "
        "%.1f\n",
        all / 1e6, at(0.5), at(0.99), at(1) / 1e3, program.deallocate_ns / 1e6);
  }
  const std::uint64_t calls = memory.calls.map + memory.calls.access + memory.calls.unmap;
  if (chosen.most_calls == 0 || calls <= chosen.most_calls) return 0;
  std::printf("  %llu maps, calls for rights and unmaps, and %llu are allowed\n",
              static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(chosen.most_calls));
  return 1;
}

call_counts calls_of(const caching_allocator& rival) {
  call_counts calls;
  calls.create = calls.map = rival.maps;
  calls.access = rival.grants;
  calls.malloc = rival.mallocs;
  calls.created_bytes = calls.mapped_bytes = rival.maps == 0 ? 0 : rival.held;
  return calls;
}

/// The same program with PyTorch's allocator instead of the pool.
int simulate_rival(const options& chosen) {
  caching_allocator rival{chosen.rival == "native" ? segment_kind::native
                                                   : segment_kind::expandable};
  const std::vector<event> events = events_of(chosen.trace, chosen.one_stream);
  std::printf("%s, PyTorch's %s segments\n", chosen.trace.c_str(), chosen.rival.c_str());
  for (int epoch = 0; epoch < chosen.epochs; ++epoch) {
    const call_counts before = calls_of(rival);
    std::unordered_map<std::size_t, caching_allocator::place> live;
    std::size_t requested = 0;
    std::size_t peak = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::size_t bytes = events[i].bytes;
      if (events[i].allocates) {
        live[i] = rival.allocate(events[i].stream, bytes);
        peak = std::max(peak, requested += bytes);
      } else {
        rival.deallocate(live.at(events[i].name));
        live.erase(events[i].name);
        requested -= events[events[i].name].bytes;
      }
    }
    for (const auto& [name, at] : live) rival.deallocate(at);
    const call_counts calls = calls_of(rival) - before;
    std::printf("  epoch %d: peak physical / peak requested %.4f, %llu hipMallocs, %llu maps, ",
                epoch + 1, static_cast<double>(rival.held) / static_cast<double>(peak),
                static_cast<unsigned long long>(calls.malloc),
                static_cast<unsigned long long>(calls.map));
    std::printf("ms of calls:");
    for (const price_list& each : price_lists)
      std::printf(" %s %.1f,", each.name, each.milliseconds(calls));
    std::printf("\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"What a trace would cost the pool"};
  options chosen;
  program
      .add_option("trace", chosen.trace,
                  "CSV file, gzip'ed or not, or a made-up program: training, serving, graphs")
      ->required();
  program.add_option("--rival", chosen.rival, "PyTorch's allocator instead of the pool")
      ->check(CLI::IsMember({"native", "expandable"}));
  program.add_flag("--one-stream", chosen.one_stream, "take all streams for one");
  program.add_flag("--aliases", chosen.aliases, "one chunk may have two addresses");
  program.add_flag("--equal-chunks", chosen.equal_chunks, "all chunks have one size");
  program.add_option("--epochs", chosen.epochs, "times to run it, all freed between");
  program.add_option("--unmap-delay", chosen.unmap_delay,
                     "allocations until old addresses are unmapped");
  program.add_option("--largest-chunk", chosen.largest_chunk, "MiB of a new chunk at most");
  program.add_option("--limit", chosen.limit, "GiB that the pool may hold");
  program.add_option("--seed", chosen.seed, "three blocks of random sizes stay from the start");
  program.add_option("--most-calls", chosen.most_calls,
                     "fail if maps, calls for rights and unmaps are more");
  program.add_option("--lag", chosen.lag, "microseconds until a stream passes a mark");
  CLI11_PARSE(program, argc, argv);
  try {
    return chosen.rival.empty() ? simulate(chosen) : simulate_rival(chosen);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate_pool: %s\n", error.what());
    return 1;
  }
}

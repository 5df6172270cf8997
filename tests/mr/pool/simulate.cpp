// SPDX-License-Identifier: MIT
// Replays a trace of allocations against the pool's books with no memory behind them, in seconds:
// how much memory would the pool hold, and how long would HIP's calls take? For changes of the
// pool's policy. The trace: CSV, gzip'ed or not, `Thread,Time,Action,Pointer,Size,Stream`, times in
// microseconds.
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "mr/pool/engine.hpp"

namespace {

using namespace hipvmm::mr::pool;

double now = 0;  // microseconds

/// Chunks that only cost time. What a call costs is assumed; an H200 took half as much again.
class costly_memory final : public physical_side {
 public:
  /// With `ahead` the next chunk is made beforehand, in the size of the last.
  costly_memory(bool aliases, bool ahead) : aliases_{aliases}, ahead_{ahead} {}
  [[nodiscard]] std::size_t address_bytes() const override { return std::size_t{1} << 40; }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{2} << 20; }
  [[nodiscard]] bool has_aliases() const override { return aliases_; }
  void create(std::size_t, std::size_t bytes) override {
    microseconds += map_cost;
    const auto kept = lifted_.find(bytes);
    if (kept != lifted_.end()) {
      lifted_.erase(kept);
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
  void lift(std::size_t, std::size_t bytes) override {
    microseconds += unmap_cost;
    ++moved;
    lifted_.insert(bytes);
  }
  void drop_lifted() noexcept override {
    for (const std::size_t each : lifted_) held_ -= each;
    lifted_.clear();
  }
  void alias(std::size_t, std::size_t, std::size_t) override {
    microseconds += map_cost;
    ++moved;
  }
  bool end_alias(std::size_t, std::size_t) noexcept override {
    microseconds += unmap_cost;
    return true;
  }

  double microseconds = 0;
  std::uint64_t created = 0;
  std::uint64_t moved = 0;
  std::uint64_t found_ready = 0;
  std::size_t held_high = 0;  ///< with what is ready

 private:
  static constexpr double create_cost = 10;
  static constexpr double map_cost = 24;
  static constexpr double unmap_cost = 15;
  bool aliases_;
  bool ahead_;
  std::size_t held_ = 0;
  std::size_t ready_ = 0;
  std::multiset<std::size_t> lifted_;
};

/// Streams that pass a mark some time after it was made.
class late_streams final : public stream_side {
 public:
  explicit late_streams(double lag) : lag_{lag} {}
  [[nodiscard]] std::shared_ptr<const stream_mark> mark(hipvmm::stream_ref) override {
    ++marks;
    return std::make_shared<late_mark>(*this, now + lag_);
  }
  std::uint64_t marks = 0;
  std::uint64_t waits = 0;

 private:
  struct late_mark final : stream_mark {
    late_mark(late_streams& all, double passes) : streams{all}, at{passes} {}
    [[nodiscard]] bool is_done() const override { return now >= at; }
    void synchronize() const override {}
    [[nodiscard]] bool hold_back(hipvmm::stream_ref) const override {
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
};

int simulate(const options& chosen) {
  struct owned {
    std::size_t offset;
    std::size_t bytes;
  };
  costly_memory memory{chosen.aliases, chosen.ahead};
  late_streams streams{chosen.lag};
  engine pool{memory, streams, std::uintptr_t{1} << 40};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file{gzopen(chosen.trace.c_str(), "rb"),
                                                        gzclose};
  if (!file) throw std::runtime_error{"cannot open " + chosen.trace};
  std::unordered_map<unsigned long long, owned> live;
  std::size_t requested = 0;
  std::size_t peak = 0;
  char line[256];
  gzgets(file.get(), line, sizeof line);
  for (std::uint64_t row = 2; gzgets(file.get(), line, sizeof line) != nullptr; ++row) {
    long thread = 0;
    char action[16];
    unsigned long long pointer = 0;
    std::size_t bytes = 0;
    std::uintptr_t stream = 0;
    const std::string where = chosen.trace + ", row " + std::to_string(row) + ": ";
    if (std::sscanf(line, "%ld,%lf,%15[^,],%llx,%zu,%zu", &thread, &now, action, &pointer, &bytes,
                    &stream) != 6)
      throw std::runtime_error{where + "not an event: " + line};
    const auto user = pool.small_user_of(
        hipvmm::stream_ref{reinterpret_cast<ihipStream_t*>(chosen.one_stream ? 16 : 16 + stream)});
    if (action[0] == 'a') {
      const bool is_small = bytes <= largest_piece;
      const std::size_t held = bytes == 0 ? engine::unit : (bytes + 255) / 256 * 256;
      const std::size_t cached =
          is_small ? pool.cached_piece(user, classes.of(held)) : pool.cached_block(user, held);
      const auto offset = cached != piece_cache::npos ? cached
                          : is_small
                              ? pool.allocate_piece(*user.ledger, *user.cache, classes.of(held))
                              : pool.allocate_block(*user.ledger, *user.cache, held);
      if (!offset) throw std::runtime_error{where + "out of memory"};
      live[pointer] = {*offset, held};
      requested += bytes;
      peak = std::max(peak, requested);
    } else {
      const auto one = live.find(pointer);
      if (one == live.end()) throw std::runtime_error{where + "nothing lives at that pointer"};
      const auto [offset, held] = one->second;
      const bool taken =
          held <= largest_piece
              ? pool.deallocate_piece(*user.ledger, *user.cache, classes.of(held), offset)
              : pool.deallocate_block(*user.ledger, *user.cache, offset, held) ||
                    pool.deallocate(*user.ledger, offset, held);
      if (!taken) throw std::runtime_error{where + "the pool refuses what it gave"};
      requested -= bytes;
      live.erase(one);
    }
  }
  std::printf(
      "%s: peak physical / peak requested %.4f, calls %.2f %% of the time, %llu chunks created, "
      "%llu found ready, %llu moved, %llu marks, %llu waits\n",
      chosen.trace.c_str(), static_cast<double>(memory.held_high) / static_cast<double>(peak),
      100 * memory.microseconds / now, static_cast<unsigned long long>(memory.created),
      static_cast<unsigned long long>(memory.found_ready),
      static_cast<unsigned long long>(memory.moved), static_cast<unsigned long long>(streams.marks),
      static_cast<unsigned long long>(streams.waits));
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
  program.add_option("--lag", chosen.lag, "microseconds until a stream passes a mark");
  CLI11_PARSE(program, argc, argv);
  try {
    return simulate(chosen);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate_pool: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: MIT
// Measures the cost of not knowing how much will be received.
//
// Kept memory may take no longer than 1.05 times the plain transfer of known counts: above, the
// steps before the transfer would need to become one. exchange() may hold no more than 1.05 times
// the bytes that came: above, growth by an exchange would need a policy of its own.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/ranks/exchange.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device_allocation.hpp>
#include "exchange_scenarios.hpp"

namespace bench {
namespace {

using elements = hipvmm::growable_device_vector<std::uint64_t>;

/// The elements that a rank sends to each: up to three times as many to one as to another; skewed,
/// as many to rank 0 as to all others together.
std::vector<std::size_t> counts_of(const exchange_shape& shape, int from, int size) {
  std::vector<std::size_t> weights;
  for (int to = 0; to < size; ++to)
    weights.push_back(shape.skewed
                          ? static_cast<std::size_t>(to == 0 ? size - 1 : 1)
                          : 1 + static_cast<std::size_t>(from * 7 + to * 3 + from * to) % 3);
  const std::size_t sum = std::accumulate(weights.begin(), weights.end(), std::size_t{0});
  const std::size_t total = shape.bytes / sizeof(std::uint64_t);
  std::vector<std::size_t> result;
  for (const std::size_t each : weights) result.push_back(total * each / sum);
  result.back() += total - std::accumulate(result.begin(), result.end(), std::size_t{0});
  return result;
}

/// One rank through all methods.
class exchange_methods {
 public:
  exchange_methods(const settings& chosen, const exchange_shape& shape, const exchange_rank& rank)
      : chosen_{chosen},
        shape_{shape},
        rank_{rank},
        stream_{chosen.device},
        counts_{counts_of(shape, rank.ranks.rank(), rank.ranks.size())},
        source_{chosen.device} {
    source_.resize(shape.bytes / sizeof(std::uint64_t), 7, stream_);
    for (int from = 0; from < rank.ranks.size(); ++from)
      arrives_.push_back(counts_of(shape, from, rank.ranks.size())[own()]);
    arrived_ =
        sizeof(std::uint64_t) * std::accumulate(arrives_.begin(), arrives_.end(), std::size_t{0});
    stream_.synchronize();
  }

  std::vector<measurement> measure_all() {
    measurement row;
    row.scenario = scenario::exchange;
    row.steps = static_cast<std::size_t>(shape_.rounds);
    row.bytes = arrived_ * rounds();
    const auto method_of = [this](const char* called, auto run) {
      return method{called, chosen_.runs, chosen_.repeats,
                    [this, called, run](memory_probe* probe) {
                      probe_ = probe;
                      const std::vector<double> seconds = (this->*run)();
                      if (probe != nullptr) peaks_[called] = probe->take_most();
                      return slowest(seconds);
                    }};
    };
    std::vector<measurement> rows =
        measure(row,
                {method_of(name::known, &exchange_methods::known),
                 method_of(name::kept, &exchange_methods::kept),
                 method_of(name::fresh, &exchange_methods::fresh),
                 method_of(name::worst_case, &exchange_methods::worst_case),
                 method_of(name::copied, &exchange_methods::copied)},
                chosen_);
    for (measurement& each : rows) {
      if (each.seconds.empty()) continue;
      const std::size_t peak = each.method == name::kept ? kept_peak_ : peaks_[each.method];
      std::vector<double> ratios(size());
      const double mine = static_cast<double>(peak) / static_cast<double>(arrived_ * rounds());
      rank_.ranks.all_gather(&mine, ratios.data(), sizeof(mine));
      each.peak_bytes = peak;
      each.figures["held_per_received"] = *std::max_element(ratios.begin(), ratios.end());
      each.gigabytes_per_second =
          static_cast<double>(each.bytes) / summarize(each.seconds).median / 1e9;
    }
    return rows;
  }

 private:
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(rank_.ranks.rank()); }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(rank_.ranks.size()); }
  [[nodiscard]] std::size_t rounds() const { return static_cast<std::size_t>(shape_.rounds); }
  void look() const {
    if (probe_ != nullptr) probe_->look();
  }
  void meet() const {
    const char here = 1;
    std::vector<char> all(size());
    rank_.ranks.all_gather(&here, all.data(), 1);
  }
  [[nodiscard]] std::vector<double> slowest(const std::vector<double>& mine) const {
    std::vector<double> all(mine.size() * size());
    rank_.ranks.all_gather(mine.data(), all.data(), mine.size() * sizeof(double));
    std::vector<double> result = mine;
    for (std::size_t i = 0; i < all.size(); ++i)
      result[i % mine.size()] = std::max(result[i % mine.size()], all[i]);
    return result;
  }
  /// Runs each round once all ranks are there, until the stream has ended.
  template <typename Round>
  std::vector<double> timed(Round round) const {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < rounds(); ++i) {
      meet();
      const stopwatch watch;
      round(i);
      stream_.synchronize();
      seconds.push_back(watch.seconds());
      look();
    }
    return seconds;
  }
  void transfer_to(std::byte* to, const std::vector<std::size_t>& arrives) const {
    std::vector<hipvmm::outgoing> out;
    std::vector<hipvmm::incoming> in;
    const auto* from = reinterpret_cast<const std::byte*>(source_.data());
    for (std::size_t other = 0; other < size(); ++other) {
      out.push_back({static_cast<int>(other), from, counts_[other] * sizeof(std::uint64_t)});
      in.push_back({static_cast<int>(other), to, arrives[other] * sizeof(std::uint64_t)});
      from += out.back().bytes;
      to += in.back().bytes;
    }
    rank_.plain(out, in, stream_);
  }
  /// Asks for the bytes from each rank, as a program does that does not know them.
  [[nodiscard]] std::vector<std::size_t> ask_counts() const {
    std::vector<std::size_t> result(size());
    rank_.ranks.all_to_all(counts_.data(), result.data(), sizeof(std::size_t));
    return result;
  }
  /// Memory that has been used before, as in a loop.
  [[nodiscard]] hipvmm::device_allocation used_memory(std::size_t bytes) const {
    hipvmm::device_allocation result{chosen_.device, bytes};
    hipvmm::fill_async(stream_, result.get(), 0, bytes);
    stream_.synchronize();
    look();
    return result;
  }

  std::vector<double> known() {
    const hipvmm::device_allocation room = used_memory(arrived_ * rounds());
    auto* const to = static_cast<std::byte*>(room.get());
    return timed([&](std::size_t round) { transfer_to(to + round * arrived_, arrives_); });
  }
  std::vector<double> append_to(elements& received) {
    return timed([&](std::size_t) {
      static_cast<void>(hipvmm::exchange(source_, counts_, received, rank_.ranks, stream_));
    });
  }
  std::vector<double> kept() {
    if (kept_ == nullptr) {
      kept_ = std::make_unique<elements>(chosen_.device);
      static_cast<void>(append_to(*kept_));
      kept_peak_ = probe_ == nullptr ? 0 : probe_->take_most();
    }
    kept_->clear();
    return append_to(*kept_);
  }
  std::vector<double> fresh() {
    elements received{chosen_.device};
    return append_to(received);
  }
  std::vector<double> worst_case() {
    // All that the others have may come to one.
    const hipvmm::device_allocation room = used_memory(shape_.bytes * size() * rounds());
    auto* to = static_cast<std::byte*>(room.get());
    return timed([&](std::size_t) {
      const std::vector<std::size_t> arrives = ask_counts();
      transfer_to(to, arrives);
      to += arrived_;
    });
  }
  std::vector<double> copied() {
    hipvmm::device_allocation held;
    return timed([&](std::size_t round) {
      const std::vector<std::size_t> arrives = ask_counts();
      const std::size_t before = round * arrived_;
      hipvmm::device_allocation larger{chosen_.device, before + arrived_};
      auto* const to = static_cast<std::byte*>(larger.get());
      if (before != 0) hipvmm::copy_async(stream_, to, held.get(), before);
      transfer_to(to + before, arrives);
      look();
      stream_.synchronize();
      held = std::move(larger);
    });
  }

  const settings& chosen_;
  const exchange_shape& shape_;
  const exchange_rank& rank_;
  hipvmm::stream stream_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> arrives_;
  std::size_t arrived_ = 0;  // bytes, in a round
  elements source_;
  std::unique_ptr<elements> kept_;
  std::size_t kept_peak_ = 0;
  std::map<std::string, std::size_t> peaks_;
  memory_probe* probe_ = nullptr;
};

}  // namespace

std::vector<measurement> measure_exchange(const settings& chosen, const exchange_shape& shape,
                                          const exchange_rank& rank) {
  return exchange_methods{chosen, shape, rank}.measure_all();
}

}  // namespace bench

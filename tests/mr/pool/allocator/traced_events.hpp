// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// Allocations and frees of programs: traces, and made-up programs.
namespace hipvmm::test {

struct event {
  double time;
  bool allocates;
  std::size_t name;   ///< which allocation of the trace
  std::size_t bytes;  ///< that the program asked for
  ihipStream_t* stream;
};

inline std::vector<event> read_events(const std::string& trace, bool one_stream) {
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

/// A made-up program: the same events on every machine.
class made_up_program {
 public:
  /// Layers keep a tensor whose size follows the length of a batch, and free in reverse order.
  static std::vector<event> training() {
    made_up_program made;
    for (int i = 0; i < 60; ++i) made.allocate((made.random_() % 24 + 1) << 20U, 0);
    for (int step = 0; step < 60; ++step) {
      const std::size_t length = made.random_() % 48 + 16;
      std::vector<std::size_t> kept;
      for (int layer = 0; layer < 24; ++layer) {
        const std::size_t scratch = made.allocate(length * 700'000, 0);
        kept.push_back(made.allocate(length * 400'000, 0));
        made.free(scratch, 0);
      }
      for (; !kept.empty(); kept.pop_back()) made.free(kept.back(), 0);
    }
    return std::move(made.events_);
  }
  /// Sequences of three streams that come and go, in blocks of 4 KiB to 4 MiB.
  static std::vector<event> serving() {
    made_up_program made;
    std::vector<std::vector<std::size_t>> live(96);
    for (int turn = 0; turn < 4000; ++turn) {
      std::vector<std::size_t>& one = live[made.random_() % live.size()];
      const std::size_t stream = turn % 3;
      if (one.size() > made.random_() % 24) {
        for (; !one.empty(); one.pop_back()) made.free(one.back(), stream);
      } else {
        one.push_back(made.allocate(std::size_t{4096} << (made.random_() % 11), stream));
      }
    }
    return std::move(made.events_);
  }
  /// Batches of which few are many times as large as the others.
  static std::vector<event> graphs() {
    made_up_program made;
    for (int batch = 0; batch < 300; ++batch) {
      const std::size_t nodes = std::size_t{1} << (made.random_() % 8 + 10U);
      std::vector<std::size_t> kept;
      for (int layer = 0; layer < 4; ++layer)
        kept.push_back(made.allocate(nodes * (made.random_() % 3000 + 500), 0));
      for (const std::size_t each : kept) made.free(each, 0);
    }
    return std::move(made.events_);
  }

 private:
  std::size_t allocate(std::size_t bytes, std::size_t stream) {
    events_.push_back({time_ += 10, true, events_.size(), bytes, name(stream)});
    return events_.size() - 1;
  }
  void free(std::size_t which, std::size_t stream) {
    events_.push_back({time_ += 10, false, which, events_[which].bytes, name(stream)});
  }
  static ihipStream_t* name(std::size_t stream) {
    return reinterpret_cast<ihipStream_t*>(16 + stream);
  }

  std::mt19937 random_{1};
  std::vector<event> events_;
  double time_ = 0;
};

inline std::vector<event> events_of(const std::string& trace, bool one_stream) {
  if (trace == "training") return made_up_program::training();
  if (trace == "serving") return made_up_program::serving();
  if (trace == "graphs") return made_up_program::graphs();
  return read_events(trace, one_stream);
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "pool_scenarios.hpp"

namespace bench {

using resource_ptr = std::unique_ptr<hipvmm::mr::memory_resource>;

/// A resource to measure.
struct contender {
  std::string name;
  std::function<resource_ptr()> make = {};
  std::string unavailable = {};  ///< why it cannot be measured; empty if it can
  bool slow = false;             ///< sampled once in each run
};

namespace name {
inline constexpr const char* pool = "vmm_pool_resource";
inline constexpr const char* pool_without_holes = "vmm_pool_resource, no holes";
inline constexpr const char* async_pool = "hipMallocAsync";
inline constexpr const char* locked = "mutex and list";
inline constexpr const char* locked_events = "mutex, list and events";
inline constexpr const char* driver = "hipMalloc";
}  // namespace name

/// Our pool first: the others are told beside it. hipMallocAsync keeps all that it has had.
[[nodiscard]] std::vector<contender> contenders(hipvmm::device_ref device);
/// Those that keep memory, hipMalloc left out.
[[nodiscard]] std::vector<contender> pools(hipvmm::device_ref device);

/// Memory that is freed when this ends.
class held_blocks {
 public:
  held_blocks(hipvmm::mr::memory_resource& resource, hipvmm::stream_ref stream)
      : resource_{resource}, stream_{stream} {}
  ~held_blocks() { clear(); }
  held_blocks(const held_blocks&) = delete;
  held_blocks& operator=(const held_blocks&) = delete;

  void add(std::size_t bytes);
  /// Gives one back, if it was not yet.
  void drop(std::size_t index);
  void clear();

 private:
  hipvmm::mr::memory_resource& resource_;
  hipvmm::stream_ref stream_;
  std::vector<std::pair<void*, std::size_t>> blocks_;
};

/// `count` pairs, and the seconds that they took.
[[nodiscard]] double time_pairs(hipvmm::mr::memory_resource& resource, hipvmm::stream_ref stream,
                                std::size_t bytes, std::size_t count);

/// The work of one contender in one scenario; it has its resource from its first sample to the last
/// one of all contenders.
class job {
 public:
  job() = default;
  virtual ~job() = default;
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  /// The seconds of single steps, or of one step as the mean of many.
  [[nodiscard]] virtual std::vector<double> sample() = 0;
  /// Of how many steps each of these is the mean.
  [[nodiscard]] virtual std::size_t steps() const { return 1; }
  /// The note of the row, after the last sample.
  [[nodiscard]] virtual std::string note() { return {}; }
};

/// A job that repeats a step for about as long as a sample is to take. How often that is, it finds
/// out at the first sample.
class repeating_job : public job {
 public:
  explicit repeating_job(double sample_seconds) : sample_seconds_{sample_seconds} {}
  [[nodiscard]] std::vector<double> sample() final;
  [[nodiscard]] std::size_t steps() const final { return steps_; }

 private:
  /// Does so many steps and returns their seconds.
  [[nodiscard]] virtual double run(std::size_t steps) = 0;

  double sample_seconds_;
  std::size_t steps_ = 0;
};

struct entry {
  contender who;
  std::function<std::unique_ptr<job>()> make;
};

/// Measures the entries in turns, the first being the baseline. `row` has their common fields.
[[nodiscard]] std::vector<measurement> measure_jobs(const measurement& row,
                                                    const std::vector<entry>& entries,
                                                    const pool_settings& chosen);
/// One Job(resource, args...) for each contender.
template <typename Job, typename... Args>
std::vector<measurement> measure_each(const measurement& row, const std::vector<contender>& all,
                                      const pool_settings& chosen, const Args&... args) {
  std::vector<entry> entries;
  for (const contender& each : all)
    entries.push_back({each, [&] { return std::make_unique<Job>(each.make(), args...); }});
  return measure_jobs(row, entries, chosen);
}
/// The row of a scenario.
[[nodiscard]] measurement row_for(const char* scenario, std::size_t bytes, int threads = 1);

}  // namespace bench

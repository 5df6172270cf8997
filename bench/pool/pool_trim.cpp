// SPDX-License-Identifier: MIT
// How long does a thread wait that allocates while another one trims gigabytes of idle memory, and
// how long does the trim take?
//
// If any pair takes above 1 ms, programs that serve requests cannot trim while they do.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

using trimmer = std::function<void(hipvmm::mr::memory_resource&)>;

/// Does pairs of several sizes in a stream of its own, one after the other, until it is stopped,
/// and keeps the times of those that had not ended when watch() was called or began later.
class allocating_thread {
 public:
  allocating_thread(hipvmm::mr::memory_resource& resource, hipvmm::device_ref device)
      : resource_{resource}, stream_{device}, thread_{[this] { work(); }} {
    while (!runs_.load()) std::this_thread::yield();
  }
  ~allocating_thread() { stop(); }
  allocating_thread(const allocating_thread&) = delete;
  allocating_thread& operator=(const allocating_thread&) = delete;

  void watch() { watched_.store(true); }
  [[nodiscard]] std::vector<double> finish() {
    stop();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(seconds_);
  }

 private:
  void stop() {
    ends_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  void work() {
    // Small and large, and one that a single chunk cannot hold.
    constexpr std::array<std::size_t, 3> sizes{256, hipvmm::MiB, 20 * hipvmm::MiB};
    constexpr std::size_t warm_up = 300;
    try {
      for (std::size_t i = 0; !ends_.load(std::memory_order_relaxed) || seconds_.empty(); ++i) {
        const std::size_t bytes = sizes[i % sizes.size()];
        const stopwatch pair;
        resource_.deallocate(stream_, resource_.allocate(stream_, bytes), bytes);
        const double took = pair.seconds();
        if (watched_.load(std::memory_order_relaxed)) seconds_.push_back(took);
        if (i == warm_up) runs_.store(true);
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
    runs_.store(true);
  }

  hipvmm::mr::memory_resource& resource_;
  hipvmm::stream stream_;
  std::atomic<bool> runs_{false};
  std::atomic<bool> watched_{false};
  std::atomic<bool> ends_{false};
  std::vector<double> seconds_;
  std::exception_ptr failure_;
  std::thread thread_;
};

class trim_job final : public job {
 public:
  /// Adds the seconds of each trim to `trims`.
  trim_job(resource_ptr resource, hipvmm::device_ref device, std::size_t idle_bytes, trimmer trim,
           std::vector<double>& trims)
      : resource_{std::move(resource)},
        device_{device},
        stream_{device},
        idle_bytes_{idle_bytes},
        trim_{std::move(trim)},
        trims_{trims} {}

  std::vector<double> sample() override {
    constexpr std::size_t block_bytes = 64 * hipvmm::MiB;
    {
      held_blocks blocks{*resource_, stream_};
      for (std::size_t had = 0; had < idle_bytes_; had += block_bytes)
        blocks.add(std::min(block_bytes, idle_bytes_ - had));
    }
    stream_.synchronize();
    allocating_thread beside{*resource_, device_};
    beside.watch();
    const stopwatch watch;
    trim_(*resource_);
    const double seconds = watch.seconds();
    std::vector<double> pairs = beside.finish();
    trims_.push_back(seconds);
    return pairs;
  }

 private:
  resource_ptr resource_;
  hipvmm::device_ref device_;
  hipvmm::stream stream_;
  std::size_t idle_bytes_;
  trimmer trim_;
  std::vector<double>& trims_;
};

void trim_async(hipvmm::mr::memory_resource& resource) {
  static_cast<hipvmm::mr::hip_async_resource&>(resource).trim_to(0);
}

}  // namespace

std::vector<measurement> measure_trim(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  const std::vector<contender> all = pools(device);
  contender nothing = all[0];
  nothing.name += ", no trim";
  struct candidate {
    contender who;
    trimmer trim;
    std::vector<double> seconds = {};
  };
  std::vector<candidate> candidates = {
      {all[0],
       [](hipvmm::mr::memory_resource& resource) {
         static_cast<hipvmm::mr::vmm_pool_resource&>(resource).trim_to(0);
       }},
      {all[1], trim_async},
      // The machine's effect on a thread that nobody holds up.
      {nothing, [](hipvmm::mr::memory_resource&) {
         std::this_thread::sleep_for(std::chrono::milliseconds{20});
       }}};
  std::vector<entry> entries;
  for (candidate& each : candidates)
    entries.push_back({each.who, [&] {
                         return std::make_unique<trim_job>(
                             each.who.make(), device, chosen.trim_bytes, each.trim, each.seconds);
                       }});
  pool_settings once = chosen;  // gigabytes are allocated and freed for each
  once.common.repeats = 1;
  const measurement row = row_for(scenario::beside_trim, chosen.trim_bytes);
  std::vector<measurement> rows = measure_jobs(row, entries, once);
  for (std::size_t i = 0; i < 2; ++i) {
    measurement trim = row_for(scenario::trim, chosen.trim_bytes);
    trim.method = candidates[i].who.name;
    // Not the one of the sample that does not count.
    if (!rows[i].seconds.empty())
      trim.seconds.assign(candidates[i].seconds.begin() + 1, candidates[i].seconds.end());
    trim.steps = 1;
    trim.note = rows[i].note;
    if (!trim.seconds.empty() && i > 0 && !rows[0].seconds.empty())
      trim.ratio = summarize(trim.seconds).median / summarize(candidates[0].seconds).median;
    rows.push_back(std::move(trim));
  }
  return rows;
}

}  // namespace bench

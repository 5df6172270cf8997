// SPDX-License-Identifier: MIT
// The cost of memory that the pool does not have: created anew, put together from chunks that are
// idle elsewhere, and taken from another pool of the process.
//
// If moving chunks takes longer than creating as much, the pool should create and trim instead. If
// idle memory of others takes over 1.5 times that, they should keep less of it.
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/ipc/budget/memory_budget.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include <hipvmm/vmm/idle/idle_memory.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

constexpr std::size_t block_count = 16;
constexpr std::size_t small_block_count = 256;

/// Asks for `bytes` bytes in so many blocks, of a resource that has nothing yet.
template <std::size_t Blocks>
class create_job final : public job {
 public:
  create_job(const contender& who, hipvmm::device_ref device, std::size_t bytes)
      : who_{who}, stream_{device}, block_bytes_{bytes / Blocks} {}

  std::vector<double> sample() override {
    const resource_ptr resource = who_.make();
    held_blocks blocks{*resource, stream_};
    const stopwatch watch;
    for (std::size_t i = 0; i < Blocks; ++i) blocks.add(block_bytes_);
    return {watch.seconds()};
  }

 private:
  const contender& who_;
  hipvmm::stream stream_;
  std::size_t block_bytes_;
};

/// A pair of half the bytes, when every other one of sixteen blocks was freed: enough is idle,
/// and none of it is long enough.
class moved_job final : public job {
 public:
  moved_job(const contender& who, hipvmm::device_ref device, std::size_t bytes)
      : who_{who}, stream_{device}, block_bytes_{bytes / block_count} {}

  std::vector<double> sample() override {
    const resource_ptr resource = who_.make();
    held_blocks blocks{*resource, stream_};
    for (std::size_t i = 0; i < block_count; ++i) blocks.add(block_bytes_);
    for (std::size_t i = 0; i < block_count; i += 2) blocks.drop(i);
    stream_.synchronize();
    const double seconds = time_pairs(*resource, stream_, block_bytes_ * block_count / 2, 1);
    if (const auto* const pool = dynamic_cast<hipvmm::mr::vmm_pool_resource*>(resource.get()))
      moved_ = pool->statistics().chunks_moved;
    return {seconds};
  }
  std::string note() override {
    return moved_ == 0 ? std::string{} : std::to_string(moved_) + " chunks moved";
  }

 private:
  const contender& who_;
  hipvmm::stream stream_;
  std::size_t block_bytes_;
  std::uint64_t moved_ = 0;
};

/// One block of `bytes` bytes, of a pool that has nothing: created, or idle in another pool while a
/// memory_budget has no room for more.
class taken_job final : public job {
 public:
  taken_job(hipvmm::device_ref device, std::size_t bytes, bool idle)
      : device_{device}, stream_{device}, bytes_{bytes}, idle_{idle} {}

  std::vector<double> sample() override {
    hipvmm::mr::vmm_pool_resource giver{device_};
    hipvmm::mr::vmm_pool_resource pool{device_};
    std::optional<hipvmm::memory_budget> budget;
    if (idle_) {
      held_blocks{giver, stream_}.add(bytes_);
      stream_.synchronize();
      budget.emplace(device_, "pool_bench-" + std::to_string(::getpid()), device_.total_memory());
      budget->set_limit(budget->bytes());
    }
    const auto before = hipvmm::idle_memory();
    const stopwatch watch;
    held_blocks{pool, stream_}.add(bytes_);
    const double seconds = watch.seconds();
    moved_ = hipvmm::idle_memory().moved_bytes - before.moved_bytes;
    return {seconds};
  }
  std::string note() override {
    return idle_ ? std::to_string(moved_ >> 20U) + " MiB moved" : std::string{};
  }

 private:
  hipvmm::device_ref device_;
  hipvmm::stream stream_;
  std::size_t bytes_;
  bool idle_;
  std::size_t moved_ = 0;
};

template <typename Job>
std::vector<measurement> measure_new(const measurement& row, const pool_settings& chosen) {
  const std::vector<contender> all = contenders(chosen.common.device);
  std::vector<entry> entries;
  for (const contender& each : all)
    entries.push_back(
        {each,
         [&] { return std::make_unique<Job>(each, chosen.common.device, chosen.create_bytes); }});
  return measure_jobs(row, entries, chosen);
}

}  // namespace

std::vector<measurement> measure_create(const pool_settings& settings) {
  // The driver clears memory that the sample before has released; meanwhile calls for new memory
  // are slow.
  pool_settings chosen = settings;
  chosen.common.pause = settings.create_pause;
  std::vector<measurement> rows =
      measure_new<create_job<block_count>>(row_for(scenario::create, chosen.create_bytes), chosen);
  for (measurement& row : measure_new<create_job<small_block_count>>(
           row_for(scenario::create_small, chosen.create_bytes), chosen))
    rows.push_back(std::move(row));
  const auto taken = [&](bool idle) {
    return [&chosen, idle] {
      return std::make_unique<taken_job>(chosen.common.device, chosen.create_bytes, idle);
    };
  };
  for (measurement& row :
       measure_jobs(row_for(scenario::taken, chosen.create_bytes),
                    {{{"new"}, taken(false)}, {{"idle in a pool"}, taken(true)}}, chosen))
    rows.push_back(std::move(row));
  for (measurement& row :
       measure_new<moved_job>(row_for(scenario::moved, chosen.create_bytes / 2), chosen))
    rows.push_back(std::move(row));
  return rows;
}

}  // namespace bench

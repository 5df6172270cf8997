// SPDX-License-Identifier: MIT
// Measures a pair of allocate and deallocate in one stream: for one size again and again, for sizes
// in turn, and both among thousands of holes that do not fit.
//
// Above 60 ns for one size, or when the holes add more than a fifth, programs keep their own lists
// of buffers beside the pool.
#include <memory>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include "pool_contenders.hpp"

namespace bench {
namespace {

/// Holes between blocks in use, larger than the sizes that a pool serves from lists by size.
class holes {
 public:
  holes(hipvmm::mr::memory_resource& resource, hipvmm::stream_ref stream, std::size_t count)
      : blocks_{resource, stream} {
    constexpr std::size_t least = 36 * hipvmm::KiB;
    constexpr std::size_t steps = 112;
    static_assert(2 * least + steps * 256 <= bytes_for_hole);
    for (std::size_t i = 0; i < count; ++i) {
      blocks_.add(least);
      blocks_.add(least + i * 7919 % steps * 256);  // of many sizes, in no order
    }
    if (count != 0) blocks_.add(least);
    for (std::size_t i = 0; i < count; ++i) blocks_.drop(2 * i + 1);
  }

 private:
  held_blocks blocks_;
};

class pairs_job final : public repeating_job {
 public:
  /// Pairs of each of `sizes` in turn.
  pairs_job(resource_ptr resource, hipvmm::device_ref device, std::vector<std::size_t> sizes,
            std::size_t hole_count, double sample_seconds)
      : repeating_job{sample_seconds},
        resource_{std::move(resource)},
        stream_{device},
        sizes_{std::move(sizes)},
        holes_{*resource_, stream_, hole_count} {}

 private:
  double run(std::size_t steps) override {
    if (sizes_.size() == 1) return time_pairs(*resource_, stream_, sizes_.front(), steps);
    const hipvmm::stream_ref stream = stream_;
    std::size_t at = 0;
    const stopwatch watch;
    for (std::size_t i = 0; i < steps; ++i) {
      const std::size_t bytes = sizes_[at];
      at = at + 1 == sizes_.size() ? 0 : at + 1;
      resource_->deallocate(stream, resource_->allocate(stream, bytes), bytes);
    }
    return watch.seconds();
  }

  resource_ptr resource_;
  hipvmm::stream stream_;
  std::vector<std::size_t> sizes_;
  holes holes_;
};

std::vector<std::size_t> sizes_in_turn() {
  using hipvmm::KiB;
  return {40 * KiB, 1024 * KiB, 72 * KiB, 4096 * KiB, 136 * KiB, 2050 * KiB, 520 * KiB, 8192 * KiB};
}

}  // namespace

std::vector<measurement> measure_pairs(const pool_settings& chosen) {
  const hipvmm::device_ref device = chosen.common.device;
  std::vector<measurement> rows;
  const std::vector<contender> keeping = pools(device);
  const std::vector<contender> all = contenders(device);
  const auto add = [&](const char* scenario, std::size_t bytes,
                       const std::vector<std::size_t>& sizes, std::size_t hole_count) {
    const auto with = [&](const contender& who, std::size_t count) {
      return entry{who, [&, count] {
                     return std::make_unique<pairs_job>(who.make(), device, sizes, count,
                                                        chosen.sample_seconds);
                   }};
    };
    std::vector<entry> entries;
    // The cost of hipMalloc does not depend on other blocks.
    for (const contender& each : hole_count == 0 ? all : keeping)
      entries.push_back(with(each, hole_count));
    if (hole_count != 0) {
      // Once more in the same turns, for the bar.
      entries.push_back(with(keeping.front(), 0));
      entries.back().who.name = name::pool_without_holes;
    }
    for (measurement& row : measure_jobs(row_for(scenario, bytes), entries, chosen))
      rows.push_back(std::move(row));
  };
  for (const std::size_t bytes : chosen.sizes) add(scenario::pairs, bytes, {bytes}, 0);
  for (const std::size_t bytes : chosen.sizes)
    add(scenario::pairs_with_holes, bytes, {bytes}, chosen.holes);
  const std::vector<std::size_t> mixed = sizes_in_turn();
  add(scenario::in_turn, mixed.back(), mixed, 0);
  add(scenario::in_turn_with_holes, mixed.back(), mixed, chosen.holes);
  return rows;
}

}  // namespace bench

// SPDX-License-Identifier: MIT
// How large can a buffer become by growth, of the memory that is free at the start?
//
// Below 99.5 % growth in place wastes memory that it promises to use: chunks would have to be
// smaller near the end.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "growth_scenarios.hpp"
#include "library_growth.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

struct reached {
  std::size_t bytes = 0;
  std::size_t free_at_start = 0;
  [[nodiscard]] double share() const {
    return static_cast<double>(bytes) / static_cast<double>(free_at_start);
  }
};

/// Grows unless memory runs out.
bool grows_to(grower& memory, std::size_t bytes) {
  try {
    memory.grow(bytes);
    return true;
  } catch (const hipvmm::out_of_memory&) {
    return false;
  } catch (const hipvmm::hip_error& error) {
    if (!is_out_of_memory(error)) throw;
    return false;
  }
}

/// Doubles until that is refused and goes on by ever smaller steps, down to one `unit`. All bytes
/// are written, and the last one is read back. Returns the seconds of growth, refusals included.
double grow_until_refused(hipvmm::device_ref device, grower& memory, std::size_t unit,
                          reached& end) {
  constexpr unsigned char mark = 7;
  const hipvmm::stream stream{device};
  double seconds = 0;
  for (std::size_t step = unit; step >= unit;) {
    const stopwatch watch;
    const bool grown = grows_to(memory, end.bytes + step);
    seconds += watch.seconds();
    if (!grown) {
      step = hipvmm::align_down(step / 2, unit);
      continue;
    }
    hipvmm::fill_async(stream, static_cast<unsigned char*>(memory.data()) + end.bytes, mark, step);
    stream.synchronize();
    const bool doubled = step == end.bytes || end.bytes == 0;
    end.bytes += step;
    if (doubled) step = end.bytes;
  }
  unsigned char last = 0;
  if (end.bytes != 0)
    hipvmm::copy(stream, &last, static_cast<unsigned char*>(memory.data()) + end.bytes - 1, 1);
  if (last != mark)
    throw std::runtime_error{"the last of " + std::to_string(end.bytes) +
                             " bytes was written and does not hold what was written"};
  return seconds;
}

}  // namespace

std::vector<measurement> measure_largest(const settings& chosen) {
  const hipvmm::device_ref device = chosen.device;
  std::vector<reached> worst(2);
  // The method as it is run, and the smallest size that it reached.
  const auto method_of = [&](const char* called, int runs, reached& least, auto make) {
    const auto run = [&chosen, &least, device, make](memory_probe*) {
      reached end;
      end.free_at_start = device.free_memory();
      const auto memory = make();
      const double seconds = grow_until_refused(device, *memory, chosen.unit, end);
      if (least.bytes == 0 || end.share() < least.share()) least = end;
      return std::vector<double>{seconds};
    };
    return method{called, runs, 1, run};
  };
  measurement row;
  row.scenario = scenario::largest;
  row.steps = 1;
  std::vector<measurement> rows =
      measure(row,
              {method_of(name::vector, chosen.runs, worst[0], [=] { return make_vector(device); }),
               method_of(name::copy, std::min(chosen.runs, chosen.copy_runs), worst[1],
                         [] { return make_copy({}); })},
              chosen);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (worst[i].bytes == 0) continue;
    rows[i].bytes = worst[i].bytes;
    rows[i].share = worst[i].share();
    rows[i].ratio.reset();  // times to different sizes
    rows[i].pairs.clear();
  }
  return rows;
}

}  // namespace bench

// SPDX-License-Identifier: MIT
// Does creating memory wait until the driver has cleared the memory released just before?
//
// The last chunks of a growth take 0.5 ms in some samples and 100 ms in others. If a pause makes
// creation fast, the driver clears in the background, and figures for clean memory need --pause-ms.
// If it is above 10 ms after the longest pause as well, memory is cleared when it is created, and
// programs that give memory back and want it again need the chunk cache, which is off by default.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "growth_scenarios.hpp"
#include "raw_hip_growth.hpp"

namespace bench {
namespace {

/// Gives `bytes` bytes back that were mapped and written, as memory is that a program gives back.
void use_and_free(hipvmm::device_ref device, std::size_t bytes) {
  const hipvmm::stream stream{device};
  const std::unique_ptr<grower> memory = make_raw_calls(device, bytes, 1);
  memory->grow(bytes);
  hipvmm::fill_async(stream, memory->data(), 1, bytes);
  stream.synchronize();
}

std::vector<measurement> measure_pauses(const char* scenario, const settings& chosen) {
  const std::size_t created =
      std::max(chosen.unit, hipvmm::align_down(chosen.max_bytes / 4, chosen.unit));
  std::vector<method> methods;
  for (const int milliseconds : chosen.create_pauses_ms) {
    const auto run = [&chosen, created, milliseconds](memory_probe*) {
      use_and_free(chosen.device, chosen.max_bytes);
      if (milliseconds != 0) std::this_thread::sleep_for(std::chrono::milliseconds{milliseconds});
      return std::vector<double>{time_create(chosen.device, created)};
    };
    methods.push_back({"after " + std::to_string(milliseconds) + " ms", chosen.runs, 1, run});
  }
  measurement row;
  row.scenario = scenario;
  row.steps = 1;
  row.bytes = created;
  return measure(row, methods, chosen);
}

}  // namespace

std::vector<measurement> measure_create_after_free(const settings& chosen) {
  return measure_pauses(scenario::create_after_free, chosen);
}

// The driver may have other memory, clean for long. So once more with next to nothing free but the
// released memory: a creation can have a quarter of its bytes from elsewhere, and the driver the
// memory it needs for streams.
std::vector<measurement> measure_create_on_full_device(const settings& chosen) {
  const hipvmm::scoped_device scope{chosen.device};
  const std::size_t left_free =
      chosen.max_bytes + std::max(chosen.max_bytes / 16, 64 * hipvmm::MiB);
  const std::size_t free = chosen.device.free_memory();
  const std::size_t held =
      free > left_free ? hipvmm::align_down(free - left_free, chosen.unit) : std::size_t{0};
  std::unique_ptr<grower> rest;
  if (held != 0) {
    rest = make_raw_calls(chosen.device, held, 1);
    rest->grow(held);
  }
  return measure_pauses(scenario::create_on_full_device, chosen);
}

}  // namespace bench

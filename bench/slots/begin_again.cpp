// SPDX-License-Identifier: MIT
// Measures the end of all sequences of a batch, and the growth of as many new ones to their length.
//
// Were the same slots not at least ten times as fast as other slots, a released slot need not keep
// its blocks mapped, and the memory would better be the device's.
#include <memory>

#include <hipvmm/runtime/stream.hpp>
#include "bench/sharing/raw_memory.hpp"
#include "slots_scenarios.hpp"

namespace bench {
namespace {

std::vector<double> raw_again(const settings& chosen, const slots_shape& shape) {
  const std::size_t chunks = shape.slots * shape.planes * shape.steps;
  const auto fill = [&] {
    auto memory = std::make_unique<raw_memory>(chosen.device, chunks * shape.block, chunks);
    for (std::size_t i = 0; i < chunks; ++i) memory->add(shape.block);
    return memory;
  };
  auto memory = fill();
  const stopwatch watch;
  memory.reset();
  memory = fill();
  return {watch.seconds()};
}

std::vector<double> arena_again(const settings& chosen, const slots_shape& shape, bool same) {
  const hipvmm::stream stream{chosen.device};
  slots_shape twice = shape;
  twice.slots *= 2;
  hipvmm::slot_arena arena{chosen.device, arena_of(twice, 0)};
  const std::vector<std::size_t> slots = all_slots(shape);
  std::vector<std::size_t> others = slots;
  if (!same)
    for (std::size_t& each : others) each += shape.slots;
  const std::vector<std::size_t> lengths(shape.slots, shape.steps * shape.block);
  arena.commit(slots, lengths, stream);
  stream.synchronize();
  const stopwatch watch;
  for (const std::size_t each : slots) arena.release(each, stream);
  arena.commit(others, lengths, stream);
  return {watch.seconds()};
}

}  // namespace

std::vector<measurement> measure_begin_again(const settings& chosen, const slots_shape& shape) {
  measurement row;
  row.scenario = scenario::begin_again;
  row.steps = 1;
  row.bytes = shape.slots * shape.planes * shape.steps * shape.block;
  const auto method_of = [&](const char* called, auto run) {
    return method{called, chosen.runs, chosen.repeats,
                  [&chosen, &shape, run](memory_probe*) { return run(chosen, shape); }};
  };
  return measure(
      row,
      {method_of(name::raw_calls, raw_again),
       method_of(name::other_slots,
                 [](const auto& how, const auto& of) { return arena_again(how, of, false); }),
       method_of(name::same_slots,
                 [](const auto& how, const auto& of) { return arena_again(how, of, true); })},
      chosen);
}

}  // namespace bench

// SPDX-License-Identifier: MIT
// Measures a step of a whole batch, in which every slot needs another block in every plane.
//
// Above 5 us, prefetched, a step would cost a serving program more than its own bookkeeping, and
// the commit would need a way around its checks. Not prefetched it may take no longer than 1.2
// times HIP's own calls: above, regions would need a call for several chunks.
#include <memory>
#include <thread>

#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "bench/sharing/raw_memory.hpp"
#include "slots_scenarios.hpp"

namespace bench {
namespace {

std::vector<double> raw_steps(const settings& chosen, const slots_shape& shape) {
  const std::size_t chunks = shape.slots * shape.planes * shape.steps;
  raw_memory memory{chosen.device, chunks * shape.block, chunks};
  std::vector<double> seconds;
  for (std::size_t step = 0; step < shape.steps; ++step) {
    const stopwatch watch;
    for (std::size_t i = 0; i < shape.slots * shape.planes; ++i) memory.add(shape.block);
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

void wait_for_prefetch(const hipvmm::slot_arena& arena, std::size_t bytes) {
  for (std::size_t slot = 0; slot < arena.slots(); ++slot)
    while (arena.capacity(slot) < bytes) std::this_thread::yield();
}

std::vector<double> arena_steps(const settings& chosen, const slots_shape& shape,
                                std::size_t prefetched) {
  const hipvmm::stream stream{chosen.device};
  hipvmm::slot_arena arena{chosen.device, arena_of(shape, prefetched)};
  const std::vector<std::size_t> slots = all_slots(shape);
  std::vector<double> seconds;
  if (prefetched != 0) {
    // Free slots are not prefetched for.
    for (std::size_t i = 0; i < shape.slots; ++i) static_cast<void>(arena.acquire(stream));
  }
  for (std::size_t step = 1; step <= shape.steps; ++step) {
    if (prefetched != 0) wait_for_prefetch(arena, step * shape.block);
    const std::vector<std::size_t> lengths(shape.slots, step * shape.block);
    const stopwatch watch;
    arena.commit(slots, lengths, stream);
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

std::vector<double> steps_within(const settings& chosen, const slots_shape& shape) {
  const hipvmm::stream stream{chosen.device};
  hipvmm::slot_arena arena{chosen.device, arena_of(shape, 0)};
  const std::vector<std::size_t> slots = all_slots(shape);
  arena.commit(slots, std::vector<std::size_t>(shape.slots, 1), stream);
  std::vector<double> seconds;
  for (std::size_t step = 0; step < shape.steps; ++step) {
    const std::vector<std::size_t> lengths(shape.slots, 2 + step);
    const stopwatch watch;
    arena.commit(slots, lengths, stream);
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

std::vector<double> vector_steps(const settings& chosen, const slots_shape& shape) {
  hipvmm::growth_options options;
  options.max_bytes = shape.steps * shape.block;
  options.granule_bytes = shape.block;
  options.step_limit = 0;
  std::vector<std::unique_ptr<hipvmm::growable_device_vector<char>>> vectors;
  for (std::size_t i = 0; i < shape.slots * shape.planes; ++i)
    vectors.push_back(
        std::make_unique<hipvmm::growable_device_vector<char>>(chosen.device, options));
  std::vector<double> seconds;
  for (std::size_t step = 1; step <= shape.steps; ++step) {
    const stopwatch watch;
    for (auto& each : vectors) each->resize_uninitialized(step * shape.block);
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

}  // namespace

std::vector<measurement> measure_growth_step(const settings& chosen, const slots_shape& shape) {
  measurement row;
  row.scenario = scenario::growth_step;
  row.steps = shape.steps;
  row.bytes = shape.slots * shape.planes * shape.steps * shape.block;
  const auto method_of = [&](const char* called, auto run) {
    return method{called, chosen.runs, chosen.repeats,
                  [&chosen, &shape, run](memory_probe*) { return run(chosen, shape); }};
  };
  return measure(
      row,
      {method_of(name::raw_calls, raw_steps),
       method_of(name::not_prefetched,
                 [](const auto& how, const auto& of) { return arena_steps(how, of, 0); }),
       method_of(name::prefetched,
                 [](const auto& how, const auto& of) { return arena_steps(how, of, 1); }),
       method_of(name::within, steps_within), method_of(name::vectors, vector_steps)},
      chosen);
}

}  // namespace bench

// SPDX-License-Identifier: MIT
// How much memory do slots hold that no sequence uses: by the size of blocks, and if short slots
// are packed?
//
// The bar: at most 2 % and half a block for each plane of each slot. Packed slots must hold at most
// 1.1 times the bytes of their sequences, and a block for each plane: above, a program with short
// sequences would do better with blocks that kernels find by a table.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "slots_scenarios.hpp"

namespace bench {
namespace {

measurement held_by(const std::string& called, const settings& chosen,
                    const hipvmm::slot_arena_options& options,
                    const std::vector<std::size_t>& lengths) {
  const hipvmm::stream stream{chosen.device};
  hipvmm::slot_arena arena{chosen.device, options};
  std::vector<std::size_t> slots(lengths.size());
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  arena.commit(slots, lengths, stream);
  const hipvmm::slot_arena_statistics now = arena.statistics();
  measurement row;
  row.scenario = scenario::waste;
  row.method = called;
  row.steps = 1;
  row.bytes = now.used_bytes;
  row.peak_bytes = now.held_bytes;
  const double ratio = static_cast<double>(now.held_bytes) / static_cast<double>(now.used_bytes);
  row.figures["held_per_used"] = ratio;
  const double block_in_each_plane = static_cast<double>(options.planes * arena.block_bytes()) /
                                     static_cast<double>(now.used_bytes);
  row.figures["bound"] = options.layout == hipvmm::slot_layout::packed
                             ? 1.1 + block_in_each_plane
                             : 1.02 + static_cast<double>(options.slots) * block_in_each_plane / 2;
  char text[80];
  std::snprintf(text, sizeof text, "holds %.4f times what is used", ratio);
  row.note = text;
  return row;
}

}  // namespace

std::vector<measurement> measure_waste(const settings& chosen, const slots_shape& shape) {
  std::vector<measurement> rows;
  // Any length up to the longest is as likely; the same ones each time.
  std::mt19937 generator{20};
  const std::size_t most = shape.steps * shape.block;
  std::vector<std::size_t> lengths(shape.slots);
  for (std::size_t& each : lengths)
    each = std::uniform_int_distribution<std::size_t>{1, most}(generator);
  for (std::size_t block = shape.block; block >= chosen.unit && rows.size() < 3; block /= 8) {
    hipvmm::slot_arena_options options = arena_of(shape, 0);
    options.block_bytes = block;
    rows.push_back(
        held_by(std::string{name::separate} + ", blocks of " + hipvmm::format_bytes(block), chosen,
                options, lengths));
  }
  // Short ones, all of which are near their most.
  const std::size_t few = 64 * hipvmm::KiB;
  for (std::size_t& each : lengths)
    each = std::uniform_int_distribution<std::size_t>{few * 15 / 16, few}(generator);
  for (const auto layout : {hipvmm::slot_layout::separate, hipvmm::slot_layout::packed}) {
    hipvmm::slot_arena_options options = arena_of(shape, 0);
    options.layout = layout;
    options.bytes_per_slot = few;
    rows.push_back(
        held_by(layout == hipvmm::slot_layout::packed ? "64 KiB, packed" : "64 KiB, separate",
                chosen, options, lengths));
  }
  return rows;
}

}  // namespace bench

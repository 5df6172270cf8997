// SPDX-License-Identifier: MIT
#include "src/kernel/blit_copy.hpp"

namespace stand_in {
namespace {

struct linear_copy {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t bytes;
};

linear_copy parse_copy(const argument_values& values) {
  const std::uint64_t size = values.number("size");
  std::uint64_t bytes = size;
  if (values.has("remain")) bytes = size == 0 ? 0 : (size - 1) * 4 + values.number("remain");
  return {values.number("src", "srcI") + values.number("srcOrigin"),
          values.number("dst", "dstI") + values.number("dstOrigin"), bytes};
}

linear_copy parse_copy_aligned(const argument_values& values) {
  const std::uint64_t unit = values.number("alignment") == 16 ? 16 : 4;
  return {values.number("src") + values.number("srcOrigin") * unit,
          values.number("dst") + values.number("dstOrigin") * unit, values.number("size") * unit};
}

std::vector<byte_range> ranges_of(const linear_copy& copy) {
  return {{"source", copy.from, copy.bytes}, {"destination", copy.to, copy.bytes}};
}

template <class Each>
void for_each_row(const argument_values& values, std::uint64_t unit, Each each) {
  const auto from = values.vector("srcRect");  // row pitch, slice pitch, start
  const auto to = values.vector("dstRect");
  const auto size = values.vector("size");
  for (std::uint64_t z = 0; z < size[2]; ++z) {
    for (std::uint64_t y = 0; y < size[1]; ++y) {
      each(values.number("src") + (from[2] + z * from[1] + y * from[0]) * unit,
           values.number("dst") + (to[2] + z * to[1] + y * to[0]) * unit, size[0] * unit);
    }
  }
}

std::uint64_t aligned_unit(const argument_values& values) {
  return values.vector("size")[3] == 16 ? 16 : 4;
}

void run_rows(const argument_values& values, std::uint64_t unit, const device_view& memory) {
  for_each_row(values, unit, [&](std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
    memory.copy(to, from, bytes);
  });
}

std::vector<byte_range> ranges_of_rows(const argument_values& values, std::uint64_t unit) {
  std::vector<byte_range> ranges;
  for_each_row(values, unit, [&](std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
    ranges.push_back({"source row", from, bytes});
    ranges.push_back({"destination row", to, bytes});
  });
  return ranges;
}

}  // namespace

void run_copy(const argument_values& values, const device_view& memory) {
  const linear_copy copy = parse_copy(values);
  memory.copy(copy.to, copy.from, copy.bytes);
}

std::vector<byte_range> ranges_of_copy(const argument_values& values) {
  return ranges_of(parse_copy(values));
}

void run_copy_aligned(const argument_values& values, const device_view& memory) {
  const linear_copy copy = parse_copy_aligned(values);
  memory.copy(copy.to, copy.from, copy.bytes);
}

std::vector<byte_range> ranges_of_copy_aligned(const argument_values& values) {
  return ranges_of(parse_copy_aligned(values));
}

void run_copy_rect(const argument_values& values, const device_view& memory) {
  run_rows(values, 1, memory);
}

std::vector<byte_range> ranges_of_copy_rect(const argument_values& values) {
  return ranges_of_rows(values, 1);
}

void run_copy_rect_aligned(const argument_values& values, const device_view& memory) {
  run_rows(values, aligned_unit(values), memory);
}

std::vector<byte_range> ranges_of_copy_rect_aligned(const argument_values& values) {
  return ranges_of_rows(values, aligned_unit(values));
}

}  // namespace stand_in

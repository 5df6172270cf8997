// SPDX-License-Identifier: MIT
#include "src/kernel/blit_fill.hpp"

#include <utility>

namespace stand_in {
namespace {

// One of four pointers is set, by the width of an element.
std::pair<std::uint64_t, std::uint64_t> typed_buffer(const argument_values& values) {
  static constexpr std::pair<const char*, std::uint64_t> buffers[] = {
      {"bufUChar", 1}, {"bufUShort", 2}, {"bufUInt", 4}, {"bufULong", 8}};
  for (const auto& [name, width] : buffers) {
    if (const std::uint64_t address = values.number(name); address != 0) return {address, width};
  }
  return {0, 1};
}

struct linear_fill {
  std::uint64_t to;
  std::uint64_t bytes;
  std::uint64_t pattern_bytes;
};

linear_fill parse_fill(const argument_values& values) {
  if (values.has("end_ptr")) {
    const std::uint64_t to = values.number("buf");
    return {to, values.number("end_ptr") - to,
            values.number("pattern_size") * values.number("alignment")};
  }
  const auto [buffer, width] = typed_buffer(values);
  const std::uint64_t pattern_bytes = values.number("patternSize") * width;
  return {buffer + values.number("offset") * width, values.number("size") * pattern_bytes,
          pattern_bytes};
}

struct row_fill {
  std::uint64_t to;
  std::uint64_t pitch;
  std::uint64_t row_bytes;
  std::uint64_t width;
  std::uint64_t height;
  std::uint64_t element_bytes;
  std::uint64_t pattern_bytes;
};

row_fill parse_fill_2d(const argument_values& values) {
  const auto [buffer, element] = typed_buffer(values);
  row_fill made{};
  made.to = buffer + values.number("offset") * element;
  made.pitch = values.number("pitch") * element;
  made.width = values.number("width");
  made.height = values.number("height");
  made.element_bytes = element;
  made.pattern_bytes = values.number("patternSize") * element;
  // Each of `width` work items writes a pattern, one element further than the last.
  made.row_bytes = made.width == 0 ? 0 : (made.width - 1) * element + made.pattern_bytes;
  return made;
}

std::vector<char> read_pattern(const argument_values& values, std::uint64_t bytes,
                               const device_view& memory) {
  std::vector<char> pattern(bytes);
  memory.read(pattern.data(), values.number("pattern"), bytes);
  return pattern;
}

}  // namespace

void run_fill(const argument_values& values, const device_view& memory) {
  const linear_fill fill = parse_fill(values);
  if (fill.bytes == 0 || fill.pattern_bytes == 0) return;
  const auto pattern = read_pattern(values, fill.pattern_bytes, memory);
  memory.fill(fill.to, fill.bytes, pattern.data(), fill.pattern_bytes);
}

std::vector<byte_range> ranges_of_fill(const argument_values& values) {
  const linear_fill fill = parse_fill(values);
  return {{"destination", fill.to, fill.bytes},
          {"pattern", values.number("pattern"), fill.pattern_bytes}};
}

void run_fill_2d(const argument_values& values, const device_view& memory) {
  const row_fill fill = parse_fill_2d(values);
  if (fill.row_bytes == 0 || fill.pattern_bytes == 0) return;
  const auto pattern = read_pattern(values, fill.pattern_bytes, memory);
  for (std::uint64_t y = 0; y < fill.height; ++y) {
    const std::uint64_t row = fill.to + y * fill.pitch;
    if (fill.pattern_bytes == fill.element_bytes) {
      memory.fill(row, fill.row_bytes, pattern.data(), fill.pattern_bytes);
      continue;
    }
    for (std::uint64_t x = 0; x < fill.width; ++x) {
      memory.write(row + x * fill.element_bytes, pattern.data(), fill.pattern_bytes);
    }
  }
}

std::vector<byte_range> ranges_of_fill_2d(const argument_values& values) {
  const row_fill fill = parse_fill_2d(values);
  std::vector<byte_range> ranges{{"pattern", values.number("pattern"), fill.pattern_bytes}};
  for (std::uint64_t y = 0; y < fill.height; ++y) {
    ranges.push_back({"destination row", fill.to + y * fill.pitch, fill.row_bytes});
  }
  return ranges;
}

}  // namespace stand_in

// SPDX-License-Identifier: MIT
#include "src/kernel/blit_stream_ops.hpp"

#include "src/base/clock.hpp"
#include "src/signal/signal_wait.hpp"

namespace stand_in {
namespace {

struct value_place {
  std::uint64_t address;
  std::uint64_t bytes;
};

value_place place_of(const argument_values& values) {
  const std::uint64_t word = values.number("ptrInt");
  return word != 0 ? value_place{word, 4} : value_place{values.number("ptrUlong"), 8};
}

void write_value(const value_place& place, std::uint64_t value, const device_view& memory) {
  memory.write(place.address, &value, place.bytes);
  signal_memory_changed();
}

bool comparison_holds(std::uint64_t value, std::uint64_t compare, std::uint64_t how,
                      std::uint64_t mask) {
  switch (how) {
    case 0:  // greater or equal
      return (value & mask) >= compare;
    case 1:  // equal
      return (value & mask) == compare;
    case 2:  // and
      return (value & mask & compare) != 0;
    default:  // nor
      return ((value | compare) & mask) != mask;
  }
}

// Polls, as the kernel does, because anybody may write the memory.
void wait_value(const value_place& place, std::uint64_t compare, std::uint64_t how,
                std::uint64_t mask, const device_view& memory) {
  const std::uint64_t width = place.bytes == 4 ? 0xffffffffu : ~std::uint64_t{0};
  while (!memory.stopped()) {
    std::uint64_t value = 0;
    memory.read(&value, place.address, place.bytes);
    if (comparison_holds(value, compare & width, how, mask & width)) return;
    sleep_microseconds(100);
  }
}

}  // namespace

void run_write_value(const argument_values& values, const device_view& memory) {
  value_place place = place_of(values);
  if (values.has("sizeBytes") && values.number("sizeBytes") != 0) {
    place.bytes = values.number("sizeBytes") == 4 ? 4 : 8;
  }
  write_value(place, values.number("value"), memory);
}

void run_wait_value(const argument_values& values, const device_view& memory) {
  wait_value(place_of(values), values.number("value"), values.number("flags"),
             values.number("mask"), memory);
}

void run_batch(const argument_values& values, const device_view& memory) {
  struct entry {
    std::uint32_t what;
    std::uint32_t unused;
    std::uint64_t address;
    std::uint64_t value;
    std::uint32_t flags;
    std::uint32_t unused_too;
    std::uint64_t alias;
    std::uint64_t padding;
  };
  enum : std::uint32_t { wait_32 = 1, write_32 = 2, wait_64 = 4, write_64 = 5 };
  const std::uint64_t at = values.number("params");
  for (std::uint64_t i = 0; i < values.number("count"); ++i) {
    const auto each = memory.load<entry>(at + i * sizeof(entry));
    const value_place place{each.address, each.what == wait_32 || each.what == write_32 ? 4u : 8u};
    const std::uint64_t value = place.bytes == 4 ? each.value & 0xffffffffu : each.value;
    if (each.what == wait_32 || each.what == wait_64) {
      wait_value(place, value, each.flags, ~std::uint64_t{0}, memory);
    } else if (each.what == write_32 || each.what == write_64) {
      write_value(place, value, memory);
    }
  }
}

}  // namespace stand_in

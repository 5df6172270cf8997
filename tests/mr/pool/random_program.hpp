// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "support/device_memory.hpp"
#include "support/host/host_provider.hpp"
#include "support/random_seed.hpp"
#include "support/test.hpp"

namespace hipvmm::test {

/// The requests of a random program.
struct program_sizes {
  std::size_t small;  ///< most bytes of two thirds of its requests
  std::size_t large;  ///< most bytes of the others
};

/// A random program of one thread over its own streams, whose every allocation is told to the order
/// checker: fills each block, and looks before it gives it back that nobody else wrote there. Its
/// streams and events end now and then, so that others get their handles.
template <typename Resource>
void run_random_program(Resource& memory, device_ref device, program_sizes sizes,
                        std::uint32_t seed, int steps) {
  struct owned {
    void* pointer;
    std::size_t bytes;
    std::size_t stream;
    unsigned char value;
  };
  // The contents of blocks when they were freed, copied there by their streams: nothing waits, so
  // that memory goes from one to the next while work under way uses it.
  constexpr std::size_t seen_bytes = 300;
  struct looked_at {
    std::size_t bytes;
    unsigned char value;
  };
  const pinned_memory seen{static_cast<std::size_t>(steps) * seen_bytes};
  std::vector<looked_at> looks;
  std::mt19937 random{seed};
  const auto any = [&random](std::size_t limit) { return below(random, limit); };
  std::array<stream, 3> streams{stream{device}, stream{device}, stream{device}};
  // Of another device, with access or without: memory may be freed there too.
  const device_ref elsewhere{static_cast<int>(any(static_cast<std::size_t>(device_count())))};
  stream far{elsewhere};
  std::vector<owned> live;
  const auto give_back = [&](std::size_t index) {
    owned one = live[index];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    const std::size_t shown = std::min(one.bytes, seen_bytes);
    copy_async(streams[one.stream], seen.get() + looks.size() * seen_bytes, one.pointer, shown);
    looks.push_back({shown, one.value});
    if (any(4) == 0) {
      // Another stream takes it over.
      const std::size_t next = any(streams.size());
      event passed{device};
      passed.record(streams[one.stream]);
      streams[next].wait(passed);
      one.stream = next;
    }
    stream_ref last = streams[one.stream];
    if (any(16) == 0) {
      event passed{device};
      passed.record(last);
      far.wait(passed);
      last = far;
      if (any(4) == 0) {
        static_cast<void>(hipvmm_host_note_deallocate(one.pointer, one.bytes, last.get()));
        memory.deallocate(last, one.pointer, one.bytes);
        { const stream ends = std::move(far); }
        far = stream{elsewhere};
        return;
      }
    }
    static_cast<void>(hipvmm_host_note_deallocate(one.pointer, one.bytes, last.get()));
    memory.deallocate(last, one.pointer, one.bytes);
  };
  const auto end_stream = [&](std::size_t index) {
    const std::size_t next = (index + 1) % streams.size();
    event passed{device};
    passed.record(streams[index]);
    streams[next].wait(passed);
    for (owned& one : live) {
      if (one.stream == index) one.stream = next;
    }
    { const stream ends = std::move(streams[index]); }
    streams[index] = stream{device};
  };
  std::array<event, 2> marks{event{device}, event{device}};
  const auto use_mark = [&](event& mark) {
    const stream& one = streams[any(streams.size())];
    switch (any(6)) {
      case 0:
        mark = event{device};
        break;
      case 1:
        REQUIRE(hipEventDestroy(mark.release()) == hipSuccess);
        mark = event{device};
        break;
      case 2:
        REQUIRE(hipEventRecord(mark.get(), one.get()) == hipSuccess);
        break;
      case 3:
        static_cast<void>(mark.is_done());
        break;
      case 4:
        one.wait(mark);
        break;
      default:
        mark.record(one);
    }
  };
  for (int i = 0; i < steps; ++i) {
    if (any(3) == 0) use_mark(marks[any(marks.size())]);
    if (any(15) == 0) end_stream(any(streams.size()));
    if (live.size() < 12 && any(2) == 0) {
      owned one{};
      one.bytes = 1 + any(any(3) == 0 ? sizes.large : sizes.small);
      one.stream = any(streams.size());
      one.value = static_cast<unsigned char>(any(256));
      try {
        one.pointer = memory.allocate(streams[one.stream], one.bytes);
      } catch (const out_of_memory&) {
        if (!live.empty()) give_back(any(live.size()));
        continue;
      }
      static_cast<void>(
          hipvmm_host_note_allocate(one.pointer, one.bytes, streams[one.stream].get()));
      fill_async(streams[one.stream], one.pointer, one.value, one.bytes);
      live.push_back(one);
    } else if (!live.empty()) {
      give_back(any(live.size()));
    }
    if constexpr (requires { memory.trim_to(std::size_t{0}); }) {
      if (any(100) == 0) memory.trim_to(any(2) * any(32 * MiB));
    }
  }
  while (!live.empty()) give_back(0);
  if constexpr (requires { memory.forget_stream(streams[0]); }) {
    for (const stream& each : streams) memory.forget_stream(each);
    memory.forget_stream(far);
  }
  for (const stream& each : streams) each.synchronize();
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const unsigned char* const first = seen.get() + i * seen_bytes;
    const auto right = std::count(first, first + looks[i].bytes, looks[i].value);
    REQUIRE(static_cast<std::size_t>(right) == looks[i].bytes);
  }
}

/// How often a test runs its random programs, of so many operations together: once, or until there
/// were as many as HIPVMM_FUZZ_OPERATIONS says.
inline int random_rounds(int operations) {
  const char* const wanted = std::getenv("HIPVMM_FUZZ_OPERATIONS");
  return wanted == nullptr ? 1 : std::max(1, std::atoi(wanted) / operations);
}

/// The same in four threads at once.
template <typename Resource>
void run_random_programs(Resource& memory, device_ref device, program_sizes sizes,
                         std::mt19937& seeds, int steps) {
  std::vector<std::future<void>> running;
  for (int thread = 0; thread < 4; ++thread)
    running.push_back(std::async(std::launch::async, run_random_program<Resource>, std::ref(memory),
                                 device, sizes, static_cast<std::uint32_t>(seeds()), steps));
  for (auto& each : running) each.get();
}

}  // namespace hipvmm::test

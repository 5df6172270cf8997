// SPDX-License-Identifier: MIT
// What a program can see of its memory: the events of a pool.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/pool.hpp>

/// What was allocated, freed, mapped and grown meanwhile, oldest first.
std::vector<hipvmm::memory_event> events_of_work(hipvmm::mr::vmm_pool_resource& pool,
                                                 const hipvmm::stream& stream) {
  hipvmm::memory_event_subscription events;
  {
    const hipvmm::device_uvector<float> values{1'000'000, stream, &pool};
    // ... kernels in `stream` ...
  }
  return events.read();
}

namespace {

/// Whether the events have exactly one of a kind from the pool.
bool has_one(const std::vector<hipvmm::memory_event>& events, hipvmm::memory_event_kind kind,
             const hipvmm::mr::vmm_pool_resource& pool) {
  return std::count_if(events.begin(), events.end(), [&](const hipvmm::memory_event& each) {
           return each.kind == kind && each.object == pool.event_id();
         }) == 1;
}

int run() {
  const hipvmm::stream stream;
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  const std::vector<hipvmm::memory_event> events = events_of_work(pool, stream);
  for (const hipvmm::memory_event& each : events)
    std::printf("%-13s %12zu bytes at %#zx\n", to_string(each.kind), each.bytes,
                static_cast<std::size_t>(each.address));
  using kind = hipvmm::memory_event_kind;
  if (has_one(events, kind::grow, pool) && has_one(events, kind::allocate, pool) &&
      has_one(events, kind::deallocate, pool))
    return 0;
  std::fputs("observe: events of the pool are missing\n", stderr);
  return 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "observe: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: MIT
// A program observes its memory: the events of a pool, a snapshot for PyTorch's memory
// viewer, which is written to the file that is named, and a write behind a block.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <vector>

#include <hipvmm/compat/memory_viz.hpp>
#include <hipvmm/core/observers/memory_events.hpp>
#include <hipvmm/mr/adaptor/guard_resource_adaptor.hpp>
#include <hipvmm/mr/adaptor/statistics_resource_adaptor.hpp>
#include <hipvmm/pool.hpp>
#include <hipvmm/runtime/copy.hpp>

/// The allocations, frees, mappings and growths meanwhile, oldest first.
std::vector<hipvmm::memory_event> events_of_work(hipvmm::mr::vmm_pool_resource& pool,
                                                 const hipvmm::stream& stream) {
  hipvmm::memory_event_subscription events;
  {
    const hipvmm::device_uvector<float> values{1'000'000, stream, &pool};
    // ... kernels in `stream` ...
  }
  return events.read();
}

/// Writes the memory of the pool, and the events that led to it, for PyTorch's memory viewer.
bool write_snapshot(const hipvmm::mr::vmm_pool_resource& pool,
                    hipvmm::memory_event_subscription& events, const char* path) {
  std::ofstream file{path};
  file << hipvmm::memory_viz_json({pool.snapshot()}, events.read()) << std::flush;
  return file.good();
}

/// Prints the sizes that were requested through `counted`, and how long calls took.
void print_histograms(const hipvmm::mr::statistics_resource_adaptor& counted) {
  const auto sizes = counted.get_size_classes();
  const auto latencies = counted.get_allocate_latencies();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i].allocations != 0)
      std::printf("from %zu bytes: %zu requests, %zu bytes at most\n", std::size_t{1} << i,
                  std::size_t{sizes[i].allocations}, std::size_t{sizes[i].peak_bytes});
  for (std::size_t i = 0; i < latencies.size(); ++i)
    if (latencies[i] != 0)
      std::printf("from %zu ns: %zu allocations\n", std::size_t{1} << i, std::size_t{latencies[i]});
}

/// Whether the guard finds the one byte that is written behind a block.
bool finds_overflow(hipvmm::mr::vmm_pool_resource& pool, const hipvmm::stream& stream) {
  hipvmm::mr::guard_resource_adaptor guard{&pool};
  void* const block = guard.allocate(stream, 1000);
  hipvmm::fill_async(stream, block, 1, 1001);  // one too many
  guard.deallocate(stream, block, 1000);
  guard.flush();
  return guard.damages() == 1;
}

namespace {

/// Whether one of the events is of that kind and from the pool.
bool has(const std::vector<hipvmm::memory_event>& events, hipvmm::memory_event_kind kind,
         const hipvmm::mr::vmm_pool_resource& pool) {
  return std::any_of(events.begin(), events.end(), [&](const hipvmm::memory_event& each) {
    return each.kind == kind && each.object == pool.event_id();
  });
}

bool snapshot_to(const char* path) {
  const hipvmm::stream stream;
  hipvmm::memory_event_subscription events;
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  const hipvmm::device_uvector<float> kept{3'000'000, stream, &pool};
  { const hipvmm::device_uvector<float> temporary{1'000'000, stream, &pool}; }
  return write_snapshot(pool, events, path);
}

int run(const char* path) {
  if (!snapshot_to(path)) {
    std::fprintf(stderr, "observe: %s cannot be written\n", path);
    return 1;
  }
  const hipvmm::stream stream;
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  using hipvmm::mr::latency_timing;
  hipvmm::mr::statistics_resource_adaptor counted{&pool, latency_timing::on};
  for (const std::size_t bytes : {100, 1000, 1'000'000})
    counted.deallocate(stream, counted.allocate(stream, bytes), bytes);
  print_histograms(counted);
  if (counted.get_size_classes()[9].allocations != 1) {
    std::fputs("observe: the request of 1000 bytes was not counted\n", stderr);
    return 1;
  }
  if (!finds_overflow(pool, stream)) {
    std::fputs("observe: the guard found no write behind a block\n", stderr);
    return 1;
  }
  // A pool without memory yet, so that it grows with any growth step.
  hipvmm::mr::vmm_pool_resource empty{stream.device()};
  const std::vector<hipvmm::memory_event> events = events_of_work(empty, stream);
  for (const hipvmm::memory_event& each : events)
    std::printf("%-13s %12zu bytes at %#zx\n", to_string(each.kind), each.bytes,
                static_cast<std::size_t>(each.address));
  using kind = hipvmm::memory_event_kind;
  if (has(events, kind::grow, empty) && has(events, kind::allocate, empty) &&
      has(events, kind::deallocate, empty))
    return 0;
  std::fputs("observe: events of the pool are missing\n", stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "/dev/null");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "observe: %s\n", error.what());
    return 1;
  }
}

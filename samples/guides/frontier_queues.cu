// SPDX-License-Identifier: MIT
// A breadth-first search whose queues nobody knows the length of: each of two streams owns half of
// the vertices and appends those that it finds to a queue of its own. nvcc and hipcc make a kernel
// of the expansion; another compiler runs it as a task in the stream, on the host provider.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <vector>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
using native_stream = hipStream_t;
#elif defined(__CUDACC__)
using native_stream = cudaStream_t;
#endif

namespace {

using vertex = unsigned;

constexpr vertex vertices = 1U << 16;
constexpr vertex half = vertices / 2;
constexpr vertex degree = 4;
constexpr unsigned unvisited = ~0U;

/// The graph is a rule, so that there is nothing to load: each vertex has four neighbours.
HIPVMM_HOST_DEVICE vertex neighbour(vertex from, vertex which) {
  return which == 0 ? (from + 1) % vertices : (from * 2654435761U + which * 40503U) % vertices;
}

/// Sets the level of a vertex if no other thread did before.
HIPVMM_HOST_DEVICE bool claim(unsigned* level, unsigned depth) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  return atomicCAS(level, unvisited, depth) == unvisited;
#else
  unsigned expected = unvisited;
  return __atomic_compare_exchange_n(level, &expected, depth, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
#endif
}

/// The work of a thread: appends the unvisited neighbours of one vertex in the half of its stream.
struct expand {
  hipvmm::device_span<const vertex> frontier;
  unsigned* levels;  // of the half, which begins at `first`
  vertex first;
  unsigned depth;
  hipvmm::device_appender_ref<vertex> found;

  HIPVMM_HOST_DEVICE void operator()(std::size_t index) const {
    for (vertex which = 0; which < degree; ++which) {
      const vertex next = neighbour(frontier.data()[index], which);
      if (next - first >= half || !claim(levels + (next - first), depth)) continue;
      if (!found.push(next)) levels[next - first] = unvisited;  // for the next run
    }
  }
};

#if defined(__CUDACC__) || defined(__HIPCC__)
__global__ void run_expand(expand thread) {
  const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < thread.frontier.size()) thread(index);
}

void launch(const expand& thread, hipvmm::stream_ref stream) {
  const std::size_t count = thread.frontier.size();
  if (count == 0) return;
  const auto native = reinterpret_cast<native_stream>(stream.get());
  run_expand<<<static_cast<unsigned>((count + 255) / 256), 256, 0, native>>>(thread);
}
#else
void launch(const expand& thread, hipvmm::stream_ref stream) {
  hipvmm::host_task(
      stream,
      [thread] {
        for (std::size_t index = 0; index < thread.frontier.size(); ++index) thread(index);
      },
      {{thread.frontier.data(), thread.frontier.size_bytes(), hipvmm::memory_use::read},
       {thread.levels, half * sizeof(unsigned), hipvmm::memory_use::write}});
}
#endif

/// The half of the vertices that one stream searches. Its queue holds all vertices that were found;
/// the frontier, the vertices of the last level, is at its end.
struct half_search {
  hipvmm::stream stream;
  hipvmm::growable_device_vector<vertex> queue;
  hipvmm::device_appender<vertex> appender{queue};
  hipvmm::device_uvector<unsigned> levels;
  vertex first;
  std::size_t frontier_begin = 0;
  std::size_t frontier_end = 0;

  explicit half_search(vertex first_vertex) : levels{half, stream}, first{first_vertex} {
    hipvmm::fill_async(stream, levels.data(), 0xff, half * sizeof(unsigned));  // unvisited
  }
  [[nodiscard]] hipvmm::device_span<const vertex> frontier() const {
    return {queue.data() + frontier_begin, frontier_end - frontier_begin};
  }
};

/// Searches one level in both streams; returns how many vertices were found.
std::size_t search_level(half_search (&halves)[2], unsigned depth) {
  bool open[2] = {true, true};
  std::size_t room[2] = {half / 64, half / 64};  // a guess
  while (open[0] || open[1]) {
    for (int i = 0; i < 2; ++i) {
      if (!open[i]) continue;
      half_search& own = halves[i];
      const auto found = own.appender.prepare(room[i], own.stream);
      for (const half_search& from : halves)  // the frontiers do not move, and are read
        launch({from.frontier(), own.levels.data(), own.first, depth, found}, own.stream);
    }
    for (int i = 0; i < 2; ++i) {
      if (!open[i]) continue;
      room[i] = halves[i].appender.commit(halves[i].stream, hipvmm::on_overflow::keep).missed;
      open[i] = room[i] != 0;
    }
  }
  std::size_t found = 0;
  for (half_search& own : halves) {
    own.frontier_begin = own.frontier_end;
    own.frontier_end = own.queue.size();
    found += own.frontier().size();
  }
  return found;
}

/// The same search on the host.
std::vector<unsigned> expected_levels() {
  std::vector<unsigned> levels(vertices, unvisited);
  std::vector<vertex> queue{0};
  levels[0] = 0;
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const vertex from = queue[at];
    for (vertex which = 0; which < degree; ++which) {
      const vertex next = neighbour(from, which);
      if (levels[next] != unvisited) continue;
      levels[next] = levels[from] + 1;
      queue.push_back(next);
    }
  }
  return levels;
}

void run() {
  static_cast<void>(hipvmm::device_ref::current());  // throws if there is none
  half_search halves[2] = {half_search{0}, half_search{half}};
  halves[0].levels.set_element(0, 0, halves[0].stream);
  halves[0].queue.push_back(0, halves[0].stream);
  halves[0].frontier_end = 1;
  for (half_search& own : halves) own.stream.synchronize();  // each reads the other's frontier

  unsigned depth = 1;
  std::size_t visited = 1;
  while (const std::size_t found = search_level(halves, depth)) {
    visited += found;
    ++depth;
  }

  const std::vector<unsigned> expected = expected_levels();
  for (half_search& own : halves) {
    std::vector<unsigned> levels(half);
    hipvmm::copy(own.stream, levels.data(), own.levels.data(), half * sizeof(unsigned));
    for (vertex i = 0; i < half; ++i)
      if (levels[i] != expected[own.first + i]) throw std::runtime_error{"a level is wrong"};
  }
  std::printf("%zu of %u vertices in %u levels; queues of %zu and %zu\n", visited, vertices, depth,
              halves[0].queue.size(), halves[1].queue.size());

  halves[0].queue.push_back(0, halves[0].stream);
  static_cast<void>(halves[0].appender.prepare(1, halves[0].stream));
  halves[0].queue.push_back(0, halves[0].stream);  // during a run: not allowed
  try {
    static_cast<void>(halves[0].appender.commit(halves[0].stream));
  } catch (const std::logic_error& error) {
    std::printf("%s\n", error.what());
    halves[0].appender.discard();
  }
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "frontier_queues: %s\n", error.what());
    return 1;
  }
}

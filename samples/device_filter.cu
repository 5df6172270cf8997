// SPDX-License-Identifier: MIT
// A kernel keeps those elements that pass a test, and nobody knows before how many will: it appends
// them to a vector, and is run again when the guess was too low. nvcc and hipcc make a kernel of
// the filter; another compiler runs it on the host, which the host provider's memory allows.
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <vector>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
using native_stream = hipStream_t;
#elif defined(__CUDACC__)
using native_stream = cudaStream_t;
#endif

namespace {

struct point {
  unsigned x;
  unsigned y;
};

constexpr unsigned side = 1U << 16;

/// The point number `index` of a square, as if thrown at random.
HIPVMM_HOST_DEVICE point thrown(unsigned index) {
  const unsigned mixed = (index ^ index >> 15) * 2654435761U;
  const unsigned hash = (mixed ^ mixed >> 13) * 2246822519U;
  return {(hash ^ hash >> 16) % side, (hash * 3266489917U) / side};
}

HIPVMM_HOST_DEVICE bool is_inside(point p) {
  return 1ULL * p.x * p.x + 1ULL * p.y * p.y < 1ULL * side * side;
}

/// The work of a thread: keeps the point of its index if it is inside.
struct keep_inside {
  hipvmm::device_appender_ref<point> kept;

  HIPVMM_HOST_DEVICE void operator()(unsigned index) const {
    const point p = thrown(index);
    if (is_inside(p)) kept.push(p);
  }
};

#if defined(__CUDACC__) || defined(__HIPCC__)
__global__ void run_filter(unsigned count, keep_inside filter) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) filter(index);
}

void launch(unsigned count, keep_inside filter, hipvmm::stream_ref stream) {
  const auto native = reinterpret_cast<native_stream>(stream.get());
  run_filter<<<(count + 255) / 256, 256, 0, native>>>(count, filter);
}
#else
void launch(unsigned count, keep_inside filter, hipvmm::stream_ref stream) {
  stream.synchronize();
  for (unsigned index = 0; index < count; ++index) filter(index);
}
#endif

int run() {
  constexpr unsigned count = 1'000'000;
  const hipvmm::stream stream;
  hipvmm::growable_device_vector<point> inside;

  // [appender-example]
  hipvmm::device_appender<point> appender{inside};
  std::size_t room = count / 2;  // a guess
  do {
    launch(count, keep_inside{appender.prepare(room, stream)}, stream);
    room = appender.commit(stream).missed;  // not 0: nothing was appended, and now there is room
  } while (room != 0);
  // [appender-example-end]

  std::size_t expected = 0;
  for (unsigned index = 0; index < count; ++index) expected += is_inside(thrown(index)) ? 1 : 0;
  bool all_inside = true;
  for (const point& p : inside.copy_to_host(stream)) all_inside = all_inside && is_inside(p);
  if (inside.size() != expected || !all_inside) {
    std::fprintf(stderr, "device_filter: kept %zu points, not the %zu inside\n", inside.size(),
                 expected);
    return 1;
  }
  std::printf("kept %zu of %u points: pi is about %.3f\n", inside.size(), count,
              4.0 * static_cast<double>(inside.size()) / count);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_filter: %s\n", error.what());
    return 1;
  }
}

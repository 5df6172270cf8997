// SPDX-License-Identifier: MIT
// Memory runs out, and a program has remedies: the exception that names the cause, a limit of
// the program's own, a callback that frees something, memory that waits for work, and memory that
// is held idle.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <stdexcept>
#include <vector>

namespace {

using hipvmm::MiB;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

void ask_for_too_much(hipvmm::mr::memory_resource& resource, hipvmm::stream_ref stream) {
  try {
    hipvmm::device_buffer buffer{48 * MiB, stream, &resource};
  } catch (const hipvmm::out_of_memory& error) {  // also a std::bad_alloc
    std::printf("%s\n", error.what());
    require(error.resource() == hipvmm::exhausted::device_memory ||
                error.resource() == hipvmm::exhausted::limit,
            "something else ran out");
  }
}

void limits(hipvmm::stream_ref stream) {
  hipvmm::mr::pool_options options;
  options.maximum_bytes = 64 * MiB;  // the most it takes from the device
  hipvmm::mr::vmm_pool_resource pool{hipvmm::device_ref::current(), options};
  const hipvmm::device_buffer first{32 * MiB, stream, &pool};
  ask_for_too_much(pool, stream);

  hipvmm::mr::limiting_resource_adaptor half{&pool, 32 * MiB};  // the most that a part may use
  ask_for_too_much(half, stream);
}

void callback(hipvmm::stream_ref stream) {
  hipvmm::mr::pool_options options;
  options.maximum_bytes = 64 * MiB;
  hipvmm::mr::vmm_pool_resource pool{hipvmm::device_ref::current(), options};
  std::vector<hipvmm::device_buffer> cached;  // results that can be computed again
  cached.emplace_back(32 * MiB, stream, &pool);
  cached.emplace_back(16 * MiB, stream, &pool);

  pool.set_out_of_memory_callback([&](std::size_t) {
    if (cached.empty()) return false;  // nothing to free: the request fails
    cached.erase(cached.begin());
    return true;  // try again
  });
  const hipvmm::device_buffer needed{48 * MiB, stream, &pool};
  std::printf("the callback was called %zu times\n",
              static_cast<std::size_t>(pool.statistics().callbacks));
  require(cached.size() == 1, "the callback freed more than was needed");
}

void retired_memory(const hipvmm::stream& stream) {
  {
    hipvmm::growable_device_vector<int> numbers{stream.device()};
    numbers.resize(16'000'000, stream);  // work that is under way
  }  // nobody waits: the memory returns to the device when that work is done
  hipvmm::drain_retired_memory();        // waits: for a need of memory outside of hipvmm
  hipvmm::chunk_cache::shared().trim();  // and frees chunks that are kept for a second
  std::printf("retired bytes that wait: %zu; kept: %zu\n", hipvmm::retired_memory().waiting_bytes,
              hipvmm::chunk_cache::shared().statistics().bytes);
}

void idle_memory(const hipvmm::stream& stream) {
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  for (int peak = 0; peak < 2; ++peak) {
    const hipvmm::device_buffer buffer{256 * MiB, stream, &pool};
  }
  stream.synchronize();
  const std::size_t before = pool.statistics().reserved_current;
  pool.trim_to(32 * MiB);                 // now
  pool.set_release_threshold(128 * MiB);  // from now on, by a thread of the library
  std::printf("the pool held %zu MiB, and %zu MiB after trim_to\n", before / MiB,
              pool.statistics().reserved_current / MiB);
}

void run() {
  const hipvmm::stream stream{hipvmm::device_ref::current()};
  limits(stream);
  callback(stream);
  retired_memory(stream);
  idle_memory(stream);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "out_of_memory: %s\n", error.what());
    return 1;
  }
}

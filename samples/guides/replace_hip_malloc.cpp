// SPDX-License-Identifier: MIT
// The same loop with hipMalloc and hipFree, with a pool in their place, and with a pool in stream
// order; then two mistakes, and the pool's reports of them.
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <hipvmm/pool.hpp>
#include <stdexcept>

namespace {

constexpr std::size_t steps = 100;
constexpr std::size_t count = 1'000'000;

/// Stands for the kernels of a step.
void compute(float* values, hipvmm::stream_ref stream) {
  hipvmm::fill_async(stream, values, 0, count * sizeof(float));
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

void by_hip(hipvmm::stream_ref stream) {
  for (std::size_t step = 0; step < steps; ++step) {
    void* memory = nullptr;
    if (hipMalloc(&memory, count * sizeof(float)) != hipSuccess) throw std::bad_alloc{};
    compute(static_cast<float*>(memory), stream);
    if (hipFree(memory) != hipSuccess) throw std::runtime_error{"hipFree failed"};  // waits
  }
}

void by_name(hipvmm::mr::vmm_pool_resource& pool, hipvmm::stream_ref stream) {
  for (std::size_t step = 0; step < steps; ++step) {
    void* memory = pool.allocate_sync(count * sizeof(float));
    compute(static_cast<float*>(memory), stream);
    pool.deallocate(memory);  // as safe as hipFree, and does not wait
  }
}

void in_stream_order(hipvmm::mr::vmm_pool_resource& pool, hipvmm::stream_ref stream) {
  for (std::size_t step = 0; step < steps; ++step) {
    hipvmm::device_uvector<float> values{count, stream, &pool};
    compute(values.data(), stream);
  }
}

void show(const char* way, const hipvmm::mr::vmm_pool_resource& pool) {
  const hipvmm::mr::pool_statistics now = pool.statistics();
  std::printf("%s: %zu MiB held\n", way, now.reserved_high / hipvmm::MiB);
  require(now.used_current == 0, "memory was lost");
}

void print(const char*, int, const char* message) noexcept { std::printf("%s\n", message); }

void mistakes() {
  hipvmm::set_error_handler(print);
  {
    const hipvmm::stream stream;
    hipvmm::mr::vmm_pool_resource pool{stream.device()};
    void* const memory = pool.allocate(stream, 1 << 20);
    pool.deallocate(stream, memory, 1 << 20);
    pool.deallocate(stream, memory, 1 << 20);
    static_cast<void>(pool.allocate(stream, 5 << 20));  // never deallocated
  }
  hipvmm::set_error_handler(nullptr);
}

void run() {
  const hipvmm::stream stream{hipvmm::device_ref::current()};
  by_hip(stream);
  {
    hipvmm::mr::vmm_pool_resource pool{hipvmm::device_ref::current()};
    hipvmm::mr::set_current_device_resource(&pool);  // the default of containers
    by_name(pool, stream);
    show("one for one", pool);
    hipvmm::mr::set_current_device_resource(nullptr);
  }
  hipvmm::mr::vmm_pool_resource pool{stream.device()};
  in_stream_order(pool, stream);
  show("in stream order", pool);
  stream.synchronize();
  const std::size_t released = pool.trim_to(0);
  std::printf("released to the device: %zu MiB\n", released / hipvmm::MiB);
  mistakes();
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replace_hip_malloc: %s\n", error.what());
    return 1;
  }
}

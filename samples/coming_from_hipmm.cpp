// SPDX-License-Identifier: MIT
// The examples of hipMM's README in hipvmm's own names: the code of a program that has moved
// altogether. Each checks its result.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <hipvmm/hipvmm.hpp>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error{what};
}

void pool_for_each_device() {
  // [pool-for-each-device]
  std::vector<std::unique_ptr<hipvmm::mr::vmm_pool_resource>> pools;
  for (int ordinal = 0; ordinal < hipvmm::device_count(); ++ordinal) {
    const hipvmm::device_ref device{ordinal};  // a resource names its device: none is made current
    pools.push_back(std::make_unique<hipvmm::mr::vmm_pool_resource>(device));
    hipvmm::mr::set_per_device_resource(device, pools.back().get());
  }
  // [pool-for-each-device-end]
  require(hipvmm::mr::get_current_device_resource() == pools.front().get(),
          "the default resource is not the one that was set");
  for (const auto& pool : pools) hipvmm::mr::set_per_device_resource(pool->device(), nullptr);
}

void containers() {
  // [containers]
  const hipvmm::stream stream;
  hipvmm::mr::vmm_pool_resource pool{stream.device()};

  hipvmm::device_buffer bytes{100, stream, &pool};
  hipvmm::device_uvector<std::int32_t> numbers{100, stream, &pool};
  hipvmm::device_scalar<std::int32_t> total{stream, &pool};
  total.set_value(42, stream);
  const std::int32_t value = total.value(stream);
  // [containers-end]
  hipvmm::fill_async(stream, numbers.data(), 0, numbers.size() * sizeof(std::int32_t));
  require(bytes.size() == 100 && numbers.back_element(stream) == 0 && value == 42,
          "a container lost what was put into it");
}

/// A container that grows without a copy: hipMM has none.
void growing() {
  // [growing]
  const hipvmm::stream stream;
  hipvmm::growable_device_vector<std::int32_t> numbers{stream.device()};
  for (int step = 0; step < 4; ++step) numbers.resize(numbers.size() + 1'000'000, step, stream);
  // [growing-end]
  require(numbers.copy_to_host(stream).back() == 3, "growth lost elements");
}

void adaptors() {
  // [adaptors]
  const hipvmm::stream stream;
  hipvmm::mr::hip_resource upstream{stream.device()};
  hipvmm::mr::statistics_resource_adaptor counted{&upstream};
  std::ostringstream log;
  hipvmm::mr::logging_resource_adaptor logged{&counted, log};

  void* const pointer = logged.allocate(stream, 1000);
  logged.deallocate(stream, pointer, 1000);
  // [adaptors-end]
  logged.flush();
  require(counted.get_bytes_counter().peak == 1000, "the peak is not what was allocated");
  require(log.str().find("free") != std::string::npos, "the log has no row of the deallocation");
}

void incorrect_device(hipvmm::device_ref other) {
  hipvmm::mr::hip_resource resource{hipvmm::device_ref::current()};
  const hipvmm::scoped_device switched{other};
  try {
    const hipvmm::device_buffer buffer{16, hipvmm::stream_ref::legacy_default(), &resource};
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
    return;
  }
  throw std::runtime_error{"a resource of another device was used"};
}

}  // namespace

int main() {
  try {
    static_cast<void>(hipvmm::device_ref::current());  // throws if there is none
    pool_for_each_device();
    containers();
    growing();
    adaptors();
    if (hipvmm::device_count() > 1) incorrect_device(hipvmm::device_ref{1});
    std::puts("pools, containers and adaptors did what they say");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "coming_from_hipmm: %s\n", error.what());
    return 1;
  }
}

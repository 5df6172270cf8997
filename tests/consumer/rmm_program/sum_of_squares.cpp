// SPDX-License-Identifier: MIT
// Names RMM's headers, classes and logger as a program of RMM does, and nothing of hipvmm.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <rmm/cuda_stream.hpp>
#include <rmm/cuda_stream_view.hpp>
#include <rmm/device_scalar.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/logger.hpp>
#include <rmm/mr/device/cuda_memory_resource.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/pool_memory_resource.hpp>
#include <string>

namespace {

std::int64_t sum_of_squares(int count, rmm::cuda_stream_view stream) {
  rmm::device_uvector<std::int64_t> squares(0, stream);
  squares.resize(static_cast<std::size_t>(count), stream);
  for (int i = 0; i < count; ++i) {
    const std::int64_t square = std::int64_t{i} * i;
    squares.set_element(static_cast<std::size_t>(i), square, stream);
  }
  std::int64_t sum = 0;
  for (int i = 0; i < count; ++i) sum += squares.element(static_cast<std::size_t>(i), stream);
  rmm::device_scalar<std::int64_t> result(sum, stream);
  return result.value(stream);
}

}  // namespace

int main() {
  try {
    rmm::mr::cuda_memory_resource upstream;
    rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource> pool{&upstream, 1 << 20};
    rmm::mr::set_current_device_resource(&pool);
    const rmm::cuda_stream stream;
    const std::int64_t sum = sum_of_squares(10, stream.view());
    rmm::mr::set_current_device_resource(nullptr);
    rmm::default_logger().log(rmm::level_enum::info, "the sum is " + std::to_string(sum));
    return sum == 285 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sum_of_squares: %s\n", error.what());
  }
  return 1;
}

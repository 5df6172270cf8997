// SPDX-License-Identifier: MIT
#include <limits>

#include "base/call.hpp"

namespace hipvmm::cuda_provider {
namespace {

struct elements {
  void* destination;
  std::uint32_t pattern;
  unsigned width;
  std::size_t count;
};

CUresult submit(const elements& what, CUstream stream) {
  const CUdeviceptr start = to_cuda(what.destination);
  switch (what.width) {
    case 1:
      return cuMemsetD8Async(start, static_cast<unsigned char>(what.pattern), what.count, stream);
    case 2:
      return cuMemsetD16Async(start, static_cast<unsigned short>(what.pattern), what.count, stream);
    default:
      return cuMemsetD32Async(start, what.pattern, what.count, stream);
  }
}

void fill(const elements& what, hipStream_t stream) {
  if (what.count == 0) return;
  require(what.destination != nullptr && to_cuda(what.destination) % what.width == 0);
  require(what.count <= std::numeric_limits<std::size_t>::max() / what.width);
  check(submit(what, to_cuda(stream)));
}

// CUDA's own synchronous fills return early; HIP's have filled.
hipError_t fill_and_wait(const elements& what) {
  return call([&](driver&) {
    fill(what, nullptr);
    if (what.count != 0) check(cuStreamSynchronize(nullptr));
    return hipSuccess;
  });
}

hipError_t fill_async(const elements& what, hipStream_t stream) {
  return call_on(stream, [&](driver&) {
    fill(what, stream);
    return hipSuccess;
  });
}

std::uint32_t low_byte(int value) noexcept { return static_cast<std::uint32_t>(value) & 0xFFU; }

}  // namespace
}  // namespace hipvmm::cuda_provider

using namespace hipvmm::cuda_provider;

hipError_t hipMemset(void* destination, int value, size_t bytes) {
  return fill_and_wait({destination, low_byte(value), 1, bytes});
}

hipError_t hipMemsetAsync(void* destination, int value, size_t bytes, hipStream_t stream) {
  return fill_async({destination, low_byte(value), 1, bytes}, stream);
}

hipError_t hipMemsetD8(hipDeviceptr_t destination, unsigned char value, size_t count) {
  return fill_and_wait({destination, value, 1, count});
}

hipError_t hipMemsetD8Async(hipDeviceptr_t destination, unsigned char value, size_t count,
                            hipStream_t stream) {
  return fill_async({destination, value, 1, count}, stream);
}

hipError_t hipMemsetD16(hipDeviceptr_t destination, unsigned short value, size_t count) {
  return fill_and_wait({destination, value, 2, count});
}

hipError_t hipMemsetD16Async(hipDeviceptr_t destination, unsigned short value, size_t count,
                             hipStream_t stream) {
  return fill_async({destination, value, 2, count}, stream);
}

hipError_t hipMemsetD32(hipDeviceptr_t destination, int value, size_t count) {
  return fill_and_wait({destination, static_cast<std::uint32_t>(value), 4, count});
}

hipError_t hipMemsetD32Async(hipDeviceptr_t destination, int value, size_t count,
                             hipStream_t stream) {
  return fill_async({destination, static_cast<std::uint32_t>(value), 4, count}, stream);
}

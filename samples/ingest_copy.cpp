// SPDX-License-Identifier: MIT
#include "ingest_copy.hpp"

// The one sample file that calls HIP itself: it is the way without the library.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/copy.hpp>

namespace ingest {
namespace {

struct hip_free {
  void operator()(unsigned char* memory) const noexcept {
    if (const hipError_t result = hipFree(memory); result != hipSuccess)
      std::fprintf(stderr, "ingest: hipFree failed, device memory stays in use: %s\n",
                   hipGetErrorString(result));
  }
};
using device_memory = std::unique_ptr<unsigned char, hip_free>;

device_memory allocate(hipvmm::device_ref device, std::size_t bytes, std::size_t held) {
  const hipvmm::scoped_device scope{device};
  void* memory = nullptr;
  const hipError_t result = hipMalloc(&memory, bytes);
  if (result == hipSuccess) return device_memory{static_cast<unsigned char*>(memory)};
  static_cast<void>(hipGetLastError());  // it is reported here and must not surface elsewhere
  if (result != hipErrorOutOfMemory)
    throw hipvmm::hip_error{static_cast<int>(result), "hipMalloc", __FILE__, __LINE__};
  throw hipvmm::out_of_memory{
      hipvmm::exhausted::device_memory, device.ordinal(), bytes, device.free_memory(),
      "growth by copy needs the old " + hipvmm::format_bytes(held) + " and the new at once"};
}

class copied_bytes final : public device_bytes {
 public:
  explicit copied_bytes(hipvmm::device_ref device) : device_{device} {
    hipvmm::require_device(device);
  }

  void append(const unsigned char* source, std::size_t bytes, hipvmm::stream_ref stream) override {
    if (bytes > capacity_ - bytes_) grow(hipvmm::add_bytes(bytes_, bytes), stream);
    hipvmm::copy_async(stream, memory_.get() + bytes_, source, bytes);
    bytes_ += bytes;
  }
  const unsigned char* data() const noexcept override { return memory_.get(); }
  std::size_t bytes() const noexcept override { return bytes_; }
  growth_figures growth() const noexcept override { return growth_; }

 private:
  void grow(std::size_t needed, hipvmm::stream_ref stream) {
    const std::size_t capacity = std::max(needed, hipvmm::bytes_for(capacity_, 2));
    device_memory larger = allocate(device_, capacity, capacity_);
    growth_.peak_bytes = std::max(growth_.peak_bytes, capacity_ + capacity);
    if (bytes_ != 0) {
      hipvmm::copy_async(stream, larger.get(), memory_.get(), bytes_);
      stream.synchronize();  // the old memory must outlive the copy
      growth_.bytes_copied += bytes_;
      growth_.base_moved = true;
    }
    memory_ = std::move(larger);
    capacity_ = capacity;
    growth_.chunks = 1;
    ++growth_.steps;
  }

  hipvmm::device_ref device_;
  device_memory memory_;
  std::size_t capacity_ = 0;
  std::size_t bytes_ = 0;
  growth_figures growth_;
};

}  // namespace

std::unique_ptr<device_bytes> make_copied_bytes(hipvmm::device_ref device) {
  return std::make_unique<copied_bytes>(device);
}

}  // namespace ingest

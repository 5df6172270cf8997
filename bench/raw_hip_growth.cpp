// SPDX-License-Identifier: MIT
#include "raw_hip_growth.hpp"

#include <hip/hip_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include <hipvmm/core/error.hpp>

namespace bench {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

void require(hipError_t result, const char* call) {
  if (result != hipSuccess)
    throw hipvmm::hip_error{static_cast<int>(result), call, __FILE__, __LINE__};
}

void report(hipError_t result, const char* call) {
  if (result != hipSuccess)
    std::fprintf(stderr, "growth_bench: %s failed: %s\n", call, hipGetErrorString(result));
}

class raw_stream {
 public:
  raw_stream() {
    require(hipStreamCreateWithFlags(&value_, hipStreamNonBlocking), "hipStreamCreate");
  }
  ~raw_stream() { report(hipStreamDestroy(value_), "hipStreamDestroy"); }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;

  operator hipStream_t() const { return value_; }
  void synchronize() const { require(hipStreamSynchronize(value_), "hipStreamSynchronize"); }

 private:
  hipStream_t value_ = nullptr;
};

/// A reservation and the chunks in it, with nothing between the caller and HIP but this array.
class raw_chunks {
 public:
  raw_chunks(int device, std::size_t max_bytes, std::size_t max_chunks) : max_bytes_{max_bytes} {
    property_.type = hipMemAllocationTypePinned;
    property_.location = {hipMemLocationTypeDevice, device};
    access_ = {property_.location, hipMemAccessFlagsProtReadWrite};
    chunks_.reserve(max_chunks);
    require(hipMemAddressReserve(&base_, max_bytes, 0, nullptr, 0), "hipMemAddressReserve");
  }
  ~raw_chunks() {
    std::size_t offset = 0;
    for (const auto& [handle, bytes] : chunks_) {
      report(hipMemUnmap(at(offset), bytes), "hipMemUnmap");
      report(hipMemRelease(handle), "hipMemRelease");
      offset += bytes;
    }
    report(hipMemAddressFree(base_, max_bytes_), "hipMemAddressFree");
  }
  raw_chunks(const raw_chunks&) = delete;
  raw_chunks& operator=(const raw_chunks&) = delete;

  void add(std::size_t bytes) {
    hipMemGenericAllocationHandle_t handle = nullptr;
    require(hipMemCreate(&handle, bytes, &property_, 0), "hipMemCreate");
    require(hipMemMap(at(committed_), bytes, 0, handle, 0), "hipMemMap");
    require(hipMemSetAccess(at(committed_), bytes, &access_, 1), "hipMemSetAccess");
    chunks_.emplace_back(handle, bytes);
    committed_ += bytes;
  }

 private:
  void* at(std::size_t offset) const { return static_cast<char*>(base_) + offset; }

  hipMemAllocationProp property_ = {};
  hipMemAccessDesc access_ = {};
  std::size_t max_bytes_;
  std::size_t committed_ = 0;
  void* base_ = nullptr;
  std::vector<std::pair<hipMemGenericAllocationHandle_t, std::size_t>> chunks_;
};

/// Plain device memory that is replaced as a whole to grow.
class copied_memory {
 public:
  copied_memory() = default;
  ~copied_memory() { report(hipFree(memory_), "hipFree"); }
  copied_memory(const copied_memory&) = delete;
  copied_memory& operator=(const copied_memory&) = delete;

  void grow(std::size_t bytes, hipStream_t stream) {
    void* larger = nullptr;
    require(hipMalloc(&larger, bytes), "hipMalloc");
    if (bytes_ != 0) {
      require(hipMemcpyAsync(larger, memory_, bytes_, hipMemcpyDeviceToDevice, stream),
              "hipMemcpyAsync");
      require(hipStreamSynchronize(stream), "hipStreamSynchronize");
    }
    require(hipFree(std::exchange(memory_, larger)), "hipFree");
    bytes_ = bytes;
  }
  void* at(std::size_t offset) const { return static_cast<char*>(memory_) + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

double grow_by_raw_calls(hipvmm::device_ref device, const std::vector<std::size_t>& sizes) {
  const hipvmm::scoped_device scope{device};
  raw_chunks chunks{device.ordinal(), sizes.back(), sizes.size()};
  std::size_t before = 0;
  const clock::time_point start = clock::now();
  for (const std::size_t size : sizes) chunks.add(size - std::exchange(before, size));
  return seconds_since(start);
}

double grow_by_copy(hipvmm::device_ref device, const std::vector<std::size_t>& sizes) {
  const hipvmm::scoped_device scope{device};
  const raw_stream stream;
  copied_memory memory;
  double seconds = 0;
  for (const std::size_t size : sizes) {
    const std::size_t before = memory.bytes();
    const clock::time_point start = clock::now();
    memory.grow(size, stream);
    seconds += seconds_since(start);
    require(hipMemsetAsync(memory.at(before), 1, size - before, stream), "hipMemsetAsync");
    stream.synchronize();
  }
  return seconds;
}

double append_one_by_one(hipvmm::device_ref device, const void* element, std::size_t element_bytes,
                         std::size_t count, std::size_t first_bytes) {
  const hipvmm::scoped_device scope{device};
  const raw_stream stream;
  copied_memory memory;
  memory.grow(first_bytes, stream);
  const std::size_t total = element_bytes * count;
  const clock::time_point start = clock::now();
  for (std::size_t offset = 0; offset < total; offset += element_bytes) {
    if (offset + element_bytes > memory.bytes()) memory.grow(2 * memory.bytes(), stream);
    require(
        hipMemcpyAsync(memory.at(offset), element, element_bytes, hipMemcpyHostToDevice, stream),
        "hipMemcpyAsync");
  }
  stream.synchronize();
  return seconds_since(start);
}

}  // namespace bench

// SPDX-License-Identifier: MIT
#include "raw_hip_growth.hpp"

#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "bench/support/measure.hpp"

namespace bench {
namespace {

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
    require(hipStreamCreateWithFlags(&value_, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  }
  ~raw_stream() { report(hipStreamDestroy(value_), "hipStreamDestroy"); }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;

  operator hipStream_t() const { return value_; }
  void synchronize() const { require(hipStreamSynchronize(value_), "hipStreamSynchronize"); }

 private:
  hipStream_t value_ = nullptr;
};

hipMemAccessDesc open_to(hipvmm::device_ref device) {
  return {{hipMemLocationTypeDevice, device.ordinal()}, hipMemAccessFlagsProtReadWrite};
}

hipMemAllocationProp pinned_on(hipvmm::device_ref device) {
  hipMemAllocationProp result = {};
  result.type = hipMemAllocationTypePinned;
  result.location = open_to(device).location;
  return result;
}

/// A reservation and the chunks in it, with nothing between the caller and HIP but two arrays.
class raw_chunks final : public grower {
 public:
  raw_chunks(hipvmm::device_ref device, std::size_t max_bytes, std::size_t max_steps,
             std::optional<hipvmm::device_ref> peer)
      : property_{pinned_on(device)}, max_bytes_{max_bytes}, access_{open_to(device)} {
    // The owner last, for ROCm 7.14 corrupts the mapping otherwise (openxla/xla#46576).
    if (peer) access_.insert(access_.begin(), open_to(*peer));
    chunks_.reserve(max_steps);
    require(hipMemAddressReserve(&base_, max_bytes, 0, nullptr, 0), "hipMemAddressReserve");
  }
  ~raw_chunks() override {
    std::size_t offset = 0;
    for (const auto& [handle, bytes] : chunks_) {
      report(hipMemUnmap(at(offset), bytes), "hipMemUnmap");
      report(hipMemRelease(handle), "hipMemRelease");
      offset += bytes;
    }
    report(hipMemAddressFree(base_, max_bytes_), "hipMemAddressFree");
  }

  void grow(std::size_t bytes) override {
    hipMemGenericAllocationHandle_t handle = nullptr;
    const std::size_t added = bytes - committed_;
    require(hipMemCreate(&handle, added, &property_, 0), "hipMemCreate");
    chunks_.emplace_back(handle, added);  // now, so that any failure releases it
    require(hipMemMap(at(committed_), added, 0, handle, 0), "hipMemMap");
    require(hipMemSetAccess(at(committed_), added, access_.data(), access_.size()),
            "hipMemSetAccess");
    committed_ = bytes;
  }
  void* data() override { return base_; }

 private:
  void* at(std::size_t offset) const { return static_cast<char*>(base_) + offset; }

  hipMemAllocationProp property_;
  std::size_t max_bytes_;
  std::size_t committed_ = 0;
  void* base_ = nullptr;
  std::vector<hipMemAccessDesc> access_;
  std::vector<std::pair<hipMemGenericAllocationHandle_t, std::size_t>> chunks_;
};

struct free_plain {
  void operator()(void* memory) const { report(hipFree(memory), "hipFree"); }
};
using plain_memory = std::unique_ptr<void, free_plain>;

plain_memory allocate(std::size_t bytes) {
  void* memory = nullptr;
  require(hipMalloc(&memory, bytes), "hipMalloc");
  return plain_memory{memory};
}

/// Plain device memory that is replaced as a whole to grow.
class copied_memory final : public grower {
 public:
  explicit copied_memory(peak_hook at_peak = {}) : at_peak_{std::move(at_peak)} {}

  void grow(std::size_t bytes) override {
    plain_memory larger = allocate(bytes);
    if (bytes_ != 0) {
      require(hipMemcpyAsync(larger.get(), memory_.get(), bytes_, hipMemcpyDeviceToDevice, stream_),
              "hipMemcpyAsync");
      stream_.synchronize();
    }
    if (at_peak_) at_peak_();
    memory_.swap(larger);
    bytes_ = bytes;
    require(hipFree(larger.release()), "hipFree");
  }
  void* data() override { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  raw_stream stream_;
  peak_hook at_peak_;
  plain_memory memory_;
  std::size_t bytes_ = 0;
};

struct free_in_order {
  hipStream_t stream;
  void operator()(void* memory) const { report(hipFreeAsync(memory, stream), "hipFreeAsync"); }
};

/// The same in the order of a stream.
class async_copied_memory final : public grower {
 public:
  explicit async_copied_memory(peak_hook at_peak) : at_peak_{std::move(at_peak)} {}
  ~async_copied_memory() override {
    memory_.reset();
    report(hipStreamSynchronize(stream_), "hipStreamSynchronize");
  }

  void grow(std::size_t bytes) override {
    void* memory = nullptr;
    require(hipMallocAsync(&memory, bytes, stream_), "hipMallocAsync");
    ordered_memory larger{memory, {stream_}};
    if (bytes_ != 0) {
      require(hipMemcpyAsync(larger.get(), memory_.get(), bytes_, hipMemcpyDeviceToDevice, stream_),
              "hipMemcpyAsync");
      if (at_peak_) at_peak_();
    }
    memory_.swap(larger);
    bytes_ = bytes;
    if (larger) require(hipFreeAsync(larger.release(), stream_), "hipFreeAsync");
    stream_.synchronize();
  }
  void* data() override { return memory_.get(); }

 private:
  using ordered_memory = std::unique_ptr<void, free_in_order>;

  raw_stream stream_;
  peak_hook at_peak_;
  ordered_memory memory_{nullptr, {stream_}};
  std::size_t bytes_ = 0;
};

/// Every allocation that there was; data() is the newest.
class allocations final : public grower {
 public:
  void grow(std::size_t bytes) override { all_.push_back(allocate(bytes)); }
  void* data() override { return all_.empty() ? nullptr : all_.back().get(); }

 private:
  std::vector<plain_memory> all_;
};

}  // namespace

bool is_out_of_memory(const hipvmm::hip_error& error) {
  return error.code() == hipErrorOutOfMemory;
}

std::unique_ptr<grower> make_raw_calls(hipvmm::device_ref device, std::size_t max_bytes,
                                       std::size_t max_steps,
                                       std::optional<hipvmm::device_ref> peer) {
  return std::make_unique<raw_chunks>(device, max_bytes, max_steps, peer);
}

std::unique_ptr<grower> make_copy(peak_hook at_peak) {
  return std::make_unique<copied_memory>(std::move(at_peak));
}

std::unique_ptr<grower> make_async_copy(peak_hook at_peak) {
  return std::make_unique<async_copied_memory>(std::move(at_peak));
}

std::unique_ptr<grower> make_allocation() { return std::make_unique<allocations>(); }

double time_create(hipvmm::device_ref device, std::size_t bytes) {
  const hipMemAllocationProp property = pinned_on(device);
  hipMemGenericAllocationHandle_t handle = nullptr;
  const stopwatch watch;
  require(hipMemCreate(&handle, bytes, &property, 0), "hipMemCreate");
  const double seconds = watch.seconds();
  require(hipMemRelease(handle), "hipMemRelease");
  return seconds;
}

double append_one_by_one(const void* element, std::size_t element_bytes, std::size_t count,
                         std::size_t first_bytes) {
  const raw_stream stream;
  copied_memory memory;
  memory.grow(first_bytes);
  const std::size_t total = element_bytes * count;
  const stopwatch watch;
  for (std::size_t offset = 0; offset < total; offset += element_bytes) {
    if (offset + element_bytes > memory.bytes()) {
      stream.synchronize();
      memory.grow(2 * memory.bytes());
    }
    require(hipMemcpyAsync(static_cast<char*>(memory.data()) + offset, element, element_bytes,
                           hipMemcpyHostToDevice, stream),
            "hipMemcpyAsync");
  }
  stream.synchronize();
  return watch.seconds();
}

}  // namespace bench

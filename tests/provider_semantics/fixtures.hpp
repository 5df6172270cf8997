// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <future>
#include <vector>

#include "support/devices.hpp"

namespace hipvmm::test {

inline constexpr auto posix = hipMemHandleTypePosixFileDescriptor;

inline hipMemAllocationProp pinned_on(int device,
                                      hipMemAllocationHandleType type = hipMemHandleTypeNone) {
  hipMemAllocationProp wanted{};
  wanted.type = hipMemAllocationTypePinned;
  wanted.location = {hipMemLocationTypeDevice, device};
  wanted.requestedHandleType = type;
  return wanted;
}

inline hipMemAccessDesc open_to(int device,
                                hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite) {
  return {{hipMemLocationTypeDevice, device}, flags};
}

class chunk {
 public:
  explicit chunk(std::size_t granules = 1, int device = 0,
                 hipMemAllocationHandleType type = hipMemHandleTypeNone) {
    const hipMemAllocationProp wanted = pinned_on(device, type);
    REQUIRE(hipMemCreate(&handle_, granules * granule(), &wanted, 0) == hipSuccess);
  }
  ~chunk() { release(); }
  chunk& operator=(chunk&&) = delete;

  void release() {
    if (handle_ != nullptr) CHECK(hipMemRelease(handle_) == hipSuccess);
    handle_ = nullptr;
  }
  [[nodiscard]] hipMemGenericAllocationHandle_t get() const { return handle_; }

 private:
  hipMemGenericAllocationHandle_t handle_ = nullptr;
};

/// Reserved addresses, in granules.
class addresses {
 public:
  explicit addresses(std::size_t granules) : bytes_{granules * granule()} {
    REQUIRE(hipMemAddressReserve(&base_, bytes_, 0, nullptr, 0) == hipSuccess);
  }
  ~addresses() { CHECK(hipMemAddressFree(base_, bytes_) == hipSuccess); }
  addresses& operator=(addresses&&) = delete;

  [[nodiscard]] std::byte* at(std::size_t granules, std::size_t bytes = 0) const {
    return static_cast<std::byte*>(base_) + granules * granule() + bytes;
  }

 private:
  void* base_ = nullptr;
  std::size_t bytes_;
};

/// Chunks of one granule each, mapped side by side in addresses with room behind them.
class mapped {
 public:
  explicit mapped(std::size_t count, std::size_t room = 0, int device = 0,
                  hipMemAllocationHandleType type = hipMemHandleTypeNone)
      : count_{count}, place_{count + room}, chunks_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      const hipMemAllocationProp wanted = pinned_on(device, type);
      REQUIRE(hipMemCreate(&chunks_[i], granule(), &wanted, 0) == hipSuccess);
      REQUIRE(hipMemMap(place_.at(i), granule(), 0, chunks_[i], 0) == hipSuccess);
    }
  }
  ~mapped() {
    for (std::size_t i = 0; i < count_; ++i) {
      CHECK(hipMemUnmap(place_.at(i), granule()) == hipSuccess);
      CHECK(hipMemRelease(chunks_[i]) == hipSuccess);
    }
  }
  mapped& operator=(mapped&&) = delete;

  void open(int device = 0, hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite) {
    const hipMemAccessDesc wanted = open_to(device, flags);
    REQUIRE(hipMemSetAccess(place_.at(0), count_ * granule(), &wanted, 1) == hipSuccess);
  }
  [[nodiscard]] std::byte* at(std::size_t granules = 0, std::size_t bytes = 0) const {
    return place_.at(granules, bytes);
  }
  [[nodiscard]] hipMemGenericAllocationHandle_t handle(std::size_t index = 0) const {
    return chunks_[index];
  }

 private:
  std::size_t count_;
  addresses place_;
  std::vector<hipMemGenericAllocationHandle_t> chunks_;
};

/// An object of HIP's that `End` ends. A derived class makes it.
template <typename Handle, auto End>
class ended_object {
 public:
  ~ended_object() { CHECK(End(handle) == hipSuccess); }
  ended_object& operator=(ended_object&&) = delete;
  [[nodiscard]] Handle get() const { return handle; }

 protected:
  ended_object() = default;
  Handle handle = nullptr;
};

/// The same for memory.
template <auto End>
struct ended_memory : ended_object<void*, End> {
  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(this->handle); }
};

/// Memory of hipMalloc.
struct allocation : ended_memory<hipFree> {
  explicit allocation(std::size_t bytes) { REQUIRE(hipMalloc(&handle, bytes) == hipSuccess); }
};

struct own_stream : ended_object<hipStream_t, hipStreamDestroy> {
  explicit own_stream(unsigned flags = hipStreamDefault) {
    REQUIRE(hipStreamCreateWithFlags(&handle, flags) == hipSuccess);
  }
};

struct own_event : ended_object<hipEvent_t, hipEventDestroy> {
  explicit own_event(unsigned flags = hipEventDefault) {
    REQUIRE(hipEventCreateWithFlags(&handle, flags) == hipSuccess);
  }
};

/// Holds a stream back: a callback in it waits until this ends. hipLaunchHostFunc would do as well,
/// but HIP 5.2 declares it and has none.
class held {
 public:
  explicit held(hipStream_t stream) : go_{released_.get_future()} {
    REQUIRE(hipStreamAddCallback(stream, wait, &go_, 0) == hipSuccess);
    stream_ = stream;
  }
  ~held() { release(); }
  held& operator=(held&&) = delete;

  /// Lets the stream go on and waits for it, so that it reads no object that is about to end.
  void release() {
    if (done_) return;
    done_ = true;
    released_.set_value();
    CHECK(hipStreamSynchronize(stream_) == hipSuccess);
  }

 private:
  static void wait(hipStream_t, hipError_t, void* go) {
    static_cast<std::future<void>*>(go)->wait();
  }

  std::promise<void> released_;
  std::future<void> go_;
  hipStream_t stream_ = nullptr;
  bool done_ = false;
};

inline int device_count() {
  int count = 0;
  REQUIRE(hipGetDeviceCount(&count) == hipSuccess);
  return count;
}

/// A device number that no machine has.
inline constexpr int no_device = 99;

/// hipMemset returns before device memory is filled: for bytes that others look at next.
inline hipError_t fill_and_wait(void* start, int value, std::size_t bytes) {
  const hipError_t error = hipMemset(start, value, bytes);
  return error != hipSuccess ? error : hipStreamSynchronize(nullptr);
}

inline unsigned char byte_at(const void* address) {
  unsigned char value = 0;
  REQUIRE(hipMemcpy(&value, address, 1, hipMemcpyDeviceToHost) == hipSuccess);
  return value;
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "support/host/host_profile.hpp"  // IWYU pragma: export
#include "support/host/host_provider.hpp"
#include "support/process/child_process.hpp"  // IWYU pragma: export

namespace hipvmm::test {

inline constexpr std::size_t granule = std::size_t{2} << 20U;
inline constexpr std::size_t device_budget = std::size_t{256} << 20U;

/// Checks at its end that as many objects live as at its start, and that no error is left over.
class nothing_left {
 public:
  nothing_left() : before_{live_objects()} {}
  nothing_left& operator=(nothing_left&&) = delete;
  ~nothing_left() {
    CHECK(hipSetDevice(0) == hipSuccess);
    CHECK(live_objects() == before_);
    for (int device = 0; device < 3; ++device) CHECK(hipvmm_host_device_bytes(device) == 0);
    static_cast<void>(hipGetLastError());
  }

 private:
  hipvmm_host_counters before_;
};

#define TIDY_CASE(name) TEST_CASE_FIXTURE(::hipvmm::test::nothing_left, name)

struct refusal {
  const char* rule;
  hipError_t given;
  hipError_t expected = hipErrorInvalidValue;
};

inline void check_refusals(std::initializer_list<refusal> rows) {
  for (const refusal& row : rows) {
    CAPTURE(row.rule);
    CHECK(row.given == row.expected);
  }
}

inline hipMemAllocationProp chunk_on(int device,
                                     hipMemAllocationHandleType type = hipMemHandleTypeNone) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, device};
  properties.requestedHandleType = type;
  return properties;
}

inline hipMemAccessDesc access_of(int device,
                                  hipMemAccessFlags flags = hipMemAccessFlagsProtReadWrite) {
  return {{hipMemLocationTypeDevice, device}, flags};
}

inline unsigned long long access_at(void* pointer, int device) {
  const hipMemLocation location{hipMemLocationTypeDevice, device};
  unsigned long long flags = 99;
  REQUIRE(hipMemGetAccess(&flags, &location, pointer) == hipSuccess);
  return flags;
}

/// A value that a careless C program might pass for an enumerator.
template <class Enum>
Enum not_an_enumerator(int value) {
  static_assert(sizeof(Enum) == sizeof(value));
  Enum result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

template <class Pointer>
Pointer as_handle(std::uintptr_t value) {
  return reinterpret_cast<Pointer>(value);  // NOLINT(performance-no-int-to-ptr)
}

class reservation {
 public:
  explicit reservation(std::size_t bytes) : bytes_{bytes} {
    REQUIRE(hipMemAddressReserve(&start_, bytes, 0, nullptr, 0) == hipSuccess);
  }
  reservation& operator=(reservation&&) = delete;
  ~reservation() { CHECK(hipMemAddressFree(start_, bytes_) == hipSuccess); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(start_) + offset;
  }

 private:
  void* start_ = nullptr;
  std::size_t bytes_;
};

class memory {
 public:
  explicit memory(std::size_t bytes, int device = 0,
                  hipMemAllocationHandleType type = hipMemHandleTypeNone) {
    const hipMemAllocationProp properties = chunk_on(device, type);
    REQUIRE(hipMemCreate(&handle_, bytes, &properties, 0) == hipSuccess);
  }
  memory& operator=(memory&&) = delete;
  ~memory() { CHECK(hipMemRelease(handle_) == hipSuccess); }

  [[nodiscard]] hipMemGenericAllocationHandle_t get() const { return handle_; }

 private:
  hipMemGenericAllocationHandle_t handle_ = nullptr;
};

/// A chunk of `owner` mapped in a reservation of its own, open to `users` for reading and writing.
class mapped {
 public:
  explicit mapped(std::size_t bytes, std::initializer_list<int> users = {0}, int owner = 0)
      : addresses_{bytes}, bytes_{bytes} {
    const memory chunk{bytes, owner};
    REQUIRE(hipMemMap(addresses_.at(), bytes, 0, chunk.get(), 0) == hipSuccess);
    for (const int user : users) give(user, hipMemAccessFlagsProtReadWrite);
  }
  mapped& operator=(mapped&&) = delete;
  ~mapped() { unmap(); }

  void give(int device, hipMemAccessFlags flags) const {
    const hipMemAccessDesc wanted = access_of(device, flags);
    REQUIRE(hipMemSetAccess(addresses_.at(), bytes_, &wanted, 1) == hipSuccess);
  }
  void unmap() {
    if (is_mapped_) CHECK(hipMemUnmap(addresses_.at(), bytes_) == hipSuccess);
    is_mapped_ = false;
  }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return addresses_.at(offset); }

 private:
  reservation addresses_;
  std::size_t bytes_;
  bool is_mapped_ = true;
};

class allocation {
 public:
  explicit allocation(std::size_t bytes, int device = 0) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    REQUIRE(hipMalloc(&pointer_, bytes) == hipSuccess);
    REQUIRE(hipSetDevice(0) == hipSuccess);
  }
  allocation& operator=(allocation&&) = delete;
  ~allocation() { CHECK(hipFree(pointer_) == hipSuccess); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(pointer_) + offset;
  }

 private:
  void* pointer_ = nullptr;
};

class pinned {
 public:
  explicit pinned(std::size_t bytes) {
    REQUIRE(hipHostMalloc(&pointer_, bytes, hipHostMallocDefault) == hipSuccess);
  }
  pinned& operator=(pinned&&) = delete;
  ~pinned() { CHECK(hipHostFree(pointer_) == hipSuccess); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(pointer_) + offset;
  }

 private:
  void* pointer_ = nullptr;
};

class stream {
 public:
  explicit stream(unsigned flags = hipStreamNonBlocking, int device = 0) {
    REQUIRE(hipSetDevice(device) == hipSuccess);
    REQUIRE(hipStreamCreateWithFlags(&stream_, flags) == hipSuccess);
    REQUIRE(hipSetDevice(0) == hipSuccess);
  }
  stream& operator=(stream&&) = delete;
  ~stream() { CHECK(hipStreamDestroy(stream_) == hipSuccess); }

  [[nodiscard]] hipStream_t get() const { return stream_; }
  [[nodiscard]] hipError_t wait() const { return hipStreamSynchronize(stream_); }

 private:
  hipStream_t stream_ = nullptr;
};

struct with_stream : nothing_left {
  const stream work;
};
#define WORK_CASE(name) TEST_CASE_FIXTURE(::hipvmm::test::with_stream, name)

class event {
 public:
  explicit event(unsigned flags = hipEventDefault) {
    REQUIRE(hipEventCreateWithFlags(&event_, flags) == hipSuccess);
  }
  event& operator=(event&&) = delete;
  ~event() { CHECK(hipEventDestroy(event_) == hipSuccess); }

  [[nodiscard]] hipEvent_t get() const { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

/// Fills device memory and waits for it, which hipMemset does not.
inline hipError_t fill_and_wait(void* start, int value, std::size_t bytes) {
  const hipError_t error = hipMemset(start, value, bytes);
  return error != hipSuccess ? error : hipStreamSynchronize(nullptr);
}

inline std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

/// Bytes 0, 1, 2 ... that repeat after a prime, so that no shift by a page goes unnoticed.
inline std::vector<std::byte> counted_bytes(std::size_t count) {
  std::vector<std::byte> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<std::byte>(i % 251);
  return result;
}

inline bool equal(const std::byte* memory, const std::vector<std::byte>& expected) {
  return std::equal(expected.begin(), expected.end(), memory);
}

inline void set_flag(void* flag) { *static_cast<bool*>(flag) = true; }

struct numbered {
  std::vector<int>* seen;
  int number;
};

inline void note(void* entry) {
  auto* const each = static_cast<numbered*>(entry);
  each->seen->push_back(each->number);
}

}  // namespace hipvmm::test

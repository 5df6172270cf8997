// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "providers/host/tests/fixtures.hpp"

namespace hipvmm::test {

inline constexpr int cpu = hipCpuDeviceId;

inline constexpr std::size_t page = 4096;

class managed {
 public:
  explicit managed(std::size_t bytes, unsigned flags = hipMemAttachGlobal) {
    REQUIRE(hipMallocManaged(&pointer_, bytes, flags) == hipSuccess);
  }
  managed& operator=(managed&&) = delete;
  ~managed() { CHECK(hipFree(pointer_) == hipSuccess); }

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(pointer_) + offset;
  }

 private:
  void* pointer_ = nullptr;
};

inline void advise(const void* start, std::size_t bytes, hipMemoryAdvise advice, int device = 0) {
  REQUIRE(hipMemAdvise(start, bytes, advice, device) == hipSuccess);
}

inline int attribute(hipMemRangeAttribute wanted, const void* start, std::size_t bytes) {
  int value = 99;
  REQUIRE(hipMemRangeGetAttribute(&value, sizeof(value), wanted, start, bytes) == hipSuccess);
  return value;
}

/// The devices advised to access all of a range, in `slots` ints.
inline std::vector<int> accessed_by(const void* start, std::size_t bytes, std::size_t slots = 4) {
  std::vector<int> places(slots, 99);
  REQUIRE(hipMemRangeGetAttribute(places.data(), slots * sizeof(int),
                                  hipMemRangeAttributeAccessedBy, start, bytes) == hipSuccess);
  return places;
}

/// The places of the page around `pointer`: devices in order, then hipCpuDeviceId.
inline std::vector<int> residence(const void* pointer) {
  std::vector<int> places;
  for (const int place : {0, 1, 2, hipCpuDeviceId}) {
    if (hipvmm_host_is_resident(pointer, place) != 0) places.push_back(place);
  }
  return places;
}

}  // namespace hipvmm::test

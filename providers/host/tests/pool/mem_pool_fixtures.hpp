// SPDX-License-Identifier: MIT
#pragma once

#include <future>

#include "providers/host/tests/fixtures.hpp"

namespace hipvmm::test {

inline constexpr auto used_now = hipMemPoolAttrUsedMemCurrent;

inline constexpr std::size_t mib = std::size_t{1} << 20U;

inline hipMemPoolProps pool_on(int device, hipMemAllocationHandleType type = hipMemHandleTypeNone) {
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.handleTypes = type;
  properties.location = {hipMemLocationTypeDevice, device};
  return properties;
}

/// A pool, destroyed at the end; blocks that streams still had to free are released then.
class pool {
 public:
  explicit pool(const hipMemPoolProps& properties = pool_on(0)) {
    REQUIRE(hipMemPoolCreate(&pool_, &properties) == hipSuccess);
  }
  pool& operator=(pool&&) = delete;
  ~pool() {
    destroy();
    CHECK(hipDeviceSynchronize() == hipSuccess);
  }

  [[nodiscard]] hipMemPool_t get() const { return pool_; }
  void destroy() {
    if (pool_ != nullptr) CHECK(hipMemPoolDestroy(pool_) == hipSuccess);
    pool_ = nullptr;
  }
  [[nodiscard]] std::byte* allocate(std::size_t bytes, hipStream_t stream) const {
    void* pointer = nullptr;
    REQUIRE(hipMallocFromPoolAsync(&pointer, bytes, pool_, stream) == hipSuccess);
    return static_cast<std::byte*>(pointer);
  }
  [[nodiscard]] std::uint64_t count(hipMemPoolAttr attribute) const {
    std::uint64_t value = 99;
    REQUIRE(hipMemPoolGetAttribute(pool_, attribute, &value) == hipSuccess);
    return value;
  }
  void set(hipMemPoolAttr attribute, std::uint64_t value) const {
    REQUIRE(hipMemPoolSetAttribute(pool_, attribute, &value) == hipSuccess);
  }
  /// Leaves only the named ones of the three switches on.
  void allow_only(std::initializer_list<hipMemPoolAttr> switches) const {
    for (const auto each :
         {hipMemPoolReuseFollowEventDependencies, hipMemPoolReuseAllowOpportunistic,
          hipMemPoolReuseAllowInternalDependencies}) {
      int on = std::count(switches.begin(), switches.end(), each) != 0 ? 1 : 0;
      REQUIRE(hipMemPoolSetAttribute(pool_, each, &on) == hipSuccess);
    }
  }

 private:
  hipMemPool_t pool_ = nullptr;
};

/// The first objects of most cases.
struct with_pool : nothing_left {
  const pool source;
};
#define POOL_CASE(name) TEST_CASE_FIXTURE(::hipvmm::test::with_pool, name)

inline void free_in(void* pointer, hipStream_t stream) {
  REQUIRE(hipFreeAsync(pointer, stream) == hipSuccess);
}

/// Keeps one stream busy, while all others go on, until opened.
class roadblock {
 public:
  explicit roadblock(hipStream_t stream) {
    const auto wait = [](void* self) { static_cast<roadblock*>(self)->opened_.wait(); };
    REQUIRE(hipLaunchHostFunc(stream, wait, this) == hipSuccess);
    stream_ = stream;
  }
  roadblock& operator=(roadblock&&) = delete;
  ~roadblock() {
    if (!is_open_) open();
  }

  /// Waits for the stream, which must end with `expected`.
  void open(hipError_t expected = hipSuccess) {
    is_open_ = true;
    open_.set_value();
    CHECK(hipStreamSynchronize(stream_) == expected);
  }

 private:
  std::promise<void> open_;
  std::future<void> opened_{open_.get_future()};
  hipStream_t stream_ = nullptr;
  bool is_open_ = false;
};

/// A block that `first` is going to free once its roadblock opens.
struct pending_free {
  explicit pending_free(const pool& source, std::size_t bytes = mib)
      : block{source.allocate(bytes, first.get())}, ahead{first.get()} {
    free_in(block, first.get());
  }
  stream first;
  std::byte* block;
  roadblock ahead;
};

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

// HIP objects as thin as they can be, and the baselines of their calls.
namespace bench {

inline constexpr std::size_t chunk_bytes = std::size_t{2} << 20U;

inline void must(hipError_t given, const char* function) {
  if (given != hipSuccess)
    throw std::runtime_error{std::string{function} + " gave " + hipGetErrorName(given) +
                             "; the benchmark needs it to succeed"};
}
#define MUST(function, ...) must(function(__VA_ARGS__), #function)

/// Adds up the time between start and stop.
class stopwatch {
 public:
  void start() { begin_ = clock::now(); }
  void stop() { seconds_ += std::chrono::duration<double>(clock::now() - begin_).count(); }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point begin_;
  double seconds_ = 0;
};

inline hipMemAccessDesc open_to(int device) {
  return {{hipMemLocationTypeDevice, device}, hipMemAccessFlagsProtReadWrite};
}

inline hipMemGenericAllocationHandle_t make_chunk(int device) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, device};
  hipMemGenericAllocationHandle_t handle = nullptr;
  MUST(hipMemCreate, &handle, chunk_bytes, &properties, 0);
  return handle;
}

class addresses {
 public:
  explicit addresses(std::size_t bytes) : bytes_{bytes} {
    MUST(hipMemAddressReserve, &start_, bytes, 0, nullptr, 0);
  }
  addresses(const addresses&) = delete;
  addresses& operator=(const addresses&) = delete;
  ~addresses() { static_cast<void>(hipMemAddressFree(start_, bytes_)); }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const {
    return static_cast<std::byte*>(start_) + offset;
  }

 private:
  void* start_ = nullptr;
  std::size_t bytes_;
};

class stream {
 public:
  stream() { MUST(hipStreamCreateWithFlags, &stream_, hipStreamNonBlocking); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { static_cast<void>(hipStreamDestroy(stream_)); }
  [[nodiscard]] hipStream_t get() const { return stream_; }
  void wait() const { MUST(hipStreamSynchronize, stream_); }

 private:
  hipStream_t stream_ = nullptr;
};

/// Keeps a stream busy with a host function for as long as it lives, and then waits for the rest.
class busy {
 public:
  explicit busy(const stream& with) : with_{with} {
    // Not hipLaunchHostFunc, which AMD's 5.2 declares and does not export.
    const auto wait = [](hipStream_t, hipError_t, void* self) {
      static_cast<busy*>(self)->done_.get_future().wait();
    };
    MUST(hipStreamAddCallback, with.get(), wait, this, 0U);
  }
  busy(const busy&) = delete;
  busy& operator=(const busy&) = delete;
  ~busy() {
    done_.set_value();
    static_cast<void>(hipStreamSynchronize(with_.get()));
  }

 private:
  const stream& with_;
  std::promise<void> done_;
};

/// A thread that takes from a queue, with nothing else to it.
class plain_worker {
 public:
  struct work {
    void* at;
    std::size_t bytes;
    int value;
  };

  plain_worker() : thread_{[this] { take(); }} {}
  plain_worker(const plain_worker&) = delete;
  plain_worker& operator=(const plain_worker&) = delete;
  ~plain_worker() {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    arrived_.notify_one();
    thread_.join();
  }

  void push(const work& next) {
    {
      const std::lock_guard lock{mutex_};
      queue_.push_back(next);
    }
    arrived_.notify_one();
  }
  void wait() {
    std::unique_lock lock{mutex_};
    emptied_.wait(lock, [this] { return queue_.empty(); });
  }

 private:
  void take() {
    std::unique_lock lock{mutex_};
    for (;;) {
      arrived_.wait(lock, [this] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      queue_.pop_front();
      emptied_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable emptied_;
  std::deque<work> queue_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace bench

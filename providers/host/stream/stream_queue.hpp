// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "stream/operation.hpp"
#include "stream/stream_clock.hpp"
#include "stream/stream_observer.hpp"

namespace hipvmm::host_provider {

class stream_owner;
class stream_queue;

/// Priorities are hints in HIP, and change nothing here.
inline constexpr int least_priority = 1;
inline constexpr int greatest_priority = -1;

/// A point in the work of a stream: reached when the operation with that number has finished.
struct position {
  std::shared_ptr<stream_queue> queue;
  std::uint64_t sequence;

  [[nodiscard]] bool reached() const noexcept;
  void wait() const;
};

struct mark {
  position where;
  /// Set before the position is reached.
  std::chrono::steady_clock::time_point when;
  stream_clock after;
  /// The order checker's predecessors; null without the checker.
  stream_observer::point seen;
};

enum class stream_order {
  null,          ///< the legacy null stream of its device
  blocking,      ///< orders itself against the null stream
  non_blocking,  ///< independent of it
};

/// A stream: a queue and, from the first operation on, a worker thread that runs it in order.
/// Thread-safe. An operation waits only for operations submitted before it, so streams that wait
/// for each other cannot deadlock.
class stream_queue : public std::enable_shared_from_this<stream_queue> {
 public:
  stream_queue(stream_owner& owner, int device, stream_order order, int priority);

  [[nodiscard]] stream_owner& owner() const noexcept { return owner_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] stream_order order() const noexcept { return order_; }
  [[nodiscard]] int priority() const noexcept { return priority_; }
  [[nodiscard]] stream_number number() const noexcept { return number_; }

  /// The compute units that it may use, a bit for each; empty: all. Set before the first work.
  [[nodiscard]] const std::vector<std::uint32_t>& compute_units() const noexcept {
    return compute_units_;
  }
  void set_compute_units(std::vector<std::uint32_t> units) noexcept {
    compute_units_ = std::move(units);
  }

  /// Appends work that starts after all earlier work here and after `after`.
  position submit(std::unique_ptr<operation> work, std::vector<position> after);
  /// Appends work and waits for it, in the calling thread itself if nothing is ahead of it. If the
  /// stream has an error that was not reported, returns that and runs nothing.
  hipError_t run(std::unique_ptr<operation> work, std::vector<position> after);
  /// Appends a mark; reached at once when the stream is idle.
  std::shared_ptr<mark> put_mark(std::vector<position> after);

  /// Notes that later work here comes after a mark. The caller makes it wait.
  void follow(const mark& awaited);
  /// Whether work submitted now comes after `earlier` by the waits of streams: this stream's own
  /// order, the null stream's rules, and marks followed.
  [[nodiscard]] bool comes_after(const position& earlier) const;

  [[nodiscard]] position end();
  [[nodiscard]] bool reached(std::uint64_t sequence) const noexcept {
    return completed_.load(std::memory_order_acquire) >= sequence;
  }
  [[nodiscard]] bool idle() const noexcept {
    return reached(submitted_.load(std::memory_order_acquire));
  }
  /// Throws: failure with hipErrorIllegalState in a host function, which must not wait.
  void wait(std::uint64_t sequence);

  /// The first error since the last call.
  hipError_t take_error() noexcept;
  [[nodiscard]] hipError_t peek_error() const;

  /// A host function must not wait.
  [[nodiscard]] static bool is_in_host_function() noexcept;
  class host_function_mark {
   public:
    host_function_mark() noexcept;
    ~host_function_mark();
    host_function_mark& operator=(host_function_mark&&) = delete;
  };

  /// Waits for submitted work and ends the worker. No work may be submitted afterwards.
  void close();

  class device_wait_mark {
   public:
    explicit device_wait_mark(stream_queue& queue) noexcept : queue_{queue} {
      queue_.device_waits_.fetch_add(1, std::memory_order_relaxed);
    }
    ~device_wait_mark() { queue_.device_waits_.fetch_sub(1, std::memory_order_relaxed); }
    device_wait_mark& operator=(device_wait_mark&&) = delete;

   private:
    stream_queue& queue_;
  };
  [[nodiscard]] bool is_counted_by_device_wait() const noexcept {
    return device_waits_.load(std::memory_order_relaxed) != 0;
  }

  /// Stops every worker before its next operation; nests.
  static void hold_all();
  static void release_all();
  /// In a child after fork, which has no workers: later workers are not held back, and the thread
  /// runs no host function.
  static void leave_workers();

 private:
  struct entry {
    std::unique_ptr<operation> work;
    std::vector<position> after;
  };

  void work_until_closed();
  [[nodiscard]] stream_clock clock_behind(const std::vector<position>& after) const;
  void note(const std::vector<position>& after);
  std::uint64_t append(std::unique_lock<std::mutex>& lock, entry next);
  void finish(hipError_t result);

  stream_owner& owner_;
  const stream_number number_;
  const int device_;
  const stream_order order_;
  const int priority_;
  std::vector<std::uint32_t> compute_units_;

  mutable std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable work_finished_;
  std::deque<entry> entries_;
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<unsigned> device_waits_{0};
  stream_clock clock_;
  hipError_t error_ = hipSuccess;
  bool started_ = false;
  bool sleeping_ = false;
  bool caller_runs_ = false;
  bool closed_ = false;
};

}  // namespace hipvmm::host_provider

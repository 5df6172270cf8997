// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "order_memory.hpp"
#include "order_reports.hpp"
#include "order_streams.hpp"
#include "order_values.hpp"

namespace hipvmm::host_provider {

class mem_pool;
class runtime;

/// Finds memory used without order between streams, and between streams and the host. Every fault
/// is found by what was submitted, never by what happened to run first. Thread-safe.
///
/// Its functions end the program when there is no memory for what they must remember: a checker
/// that forgets would stay silent about faults.
class order_checker {
 public:
  using point = std::shared_ptr<const order_clock>;

  explicit order_checker(const runtime& machine) noexcept : machine_{machine} {}

  /// The calling thread runs this HIP function: reports name it.
  static void enter(const char* function) noexcept;
  /// While suspended the calling thread's uses of memory are neither judged nor remembered; nests.
  static void suspend() noexcept;
  static void resume() noexcept;

  void name(const stream_queue& stream, std::uint64_t handle) noexcept;
  void retire(const stream_queue& stream) noexcept;
  /// Who waits for its device, or for the null stream, has not waited for this stream.
  void overlook(const stream_queue& stream) noexcept;

  /// What is finished when the next operation of a stream could start.
  [[nodiscard]] point place(const stream_queue& stream) noexcept;
  /// What the host knows to be finished once it has waited for a stream, or for a device.
  [[nodiscard]] point end_of(const stream_queue& stream) noexcept;
  [[nodiscard]] point end_of_device(int device) noexcept;
  void learn(const order_clock& finished) noexcept;
  /// Later work of the stream comes after what was finished at another place.
  void follow(const stream_queue& stream, const order_clock& finished) noexcept;

  /// A stream waits for a number in memory, or writes one, by work that was just submitted. Later
  /// work of those who wait comes after a write that lets them go on.
  void await_value(const stream_queue& stream, const value_wait_operation& wait) noexcept;
  void write_value(const stream_queue& stream, const value_write_operation& write) noexcept;

  /// Judges work about to be submitted and remembers it; gives its number in the stream.
  std::uint64_t submit(const stream_queue& stream, operation& work) noexcept;
  void withdraw(const stream_queue& stream, std::uint64_t count) noexcept;

  /// A pool lends a block at this point of the stream, or takes it back.
  void lend(const mem_pool& pool, address start, std::size_t bytes,
            const stream_queue& stream) noexcept;
  /// Without a stream the host takes it back, which has waited for its users.
  void take_back(address start, std::size_t bytes, const stream_queue* stream) noexcept;
  /// The same by a sub-allocator. False when it has not handed out these very bytes.
  void note_allocate(address start, std::size_t bytes, const stream_queue& stream) noexcept;
  bool note_deallocate(address start, std::size_t bytes, const stream_queue& stream) noexcept;

  /// Addresses go, whose memory nobody has had for some time.
  void forget(address start, std::size_t bytes) noexcept;
  /// Memory ends, or devices lose rights to it, and the provider waits for nothing more.
  void end(address start, std::size_t bytes) noexcept;
  void revoke(address start, std::size_t bytes, const access_change& change) noexcept;
  void revoke(const mem_pool& pool, const access_change& change) noexcept;

  [[nodiscard]] std::uint64_t reports() const noexcept;
  [[nodiscard]] std::string last_report() const;
  void clear_reports() noexcept;

 private:
  using guard = std::lock_guard<std::mutex>;

  [[nodiscard]] std::shared_ptr<const order_origin> origin_on(const stream_queue& stream);
  [[nodiscard]] order_deed next_deed(const stream_queue& stream);
  [[nodiscard]] static order_party host_that_takes_away();
  void use(const order_deed& deed, order_range bytes, order_use how, int device,
           const stream_queue& stream);
  /// Empty where there is no memory.
  [[nodiscard]] std::string place_of(address at) const;
  void report(order_memory::findings found);

  const runtime& machine_;
  mutable std::mutex mutex_;
  order_streams streams_;
  order_memory memory_;
  order_values values_;
  order_reports reports_;
};

/// Work on its way into a stream. What is not accepted in the end was never submitted.
class order_submission {
 public:
  order_submission(order_checker* checker, const stream_queue& stream, operation& work) noexcept
      : checker_{checker}, stream_{stream} {
    if (checker_ != nullptr) count_ = checker_->submit(stream, work);
  }
  order_submission(const order_submission&) = delete;
  order_submission& operator=(const order_submission&) = delete;
  ~order_submission() {
    if (checker_ != nullptr && !is_accepted_) checker_->withdraw(stream_, count_);
  }

  void accept() noexcept { is_accepted_ = true; }

 private:
  order_checker* const checker_;
  const stream_queue& stream_;
  std::uint64_t count_ = 0;
  bool is_accepted_ = false;
};

/// The host waits: whatever had been submitted when this was made counts as finished when the wait
/// is over.
class order_wait {
 public:
  order_wait(order_checker* checker, const stream_queue& stream) noexcept
      : checker_{checker}, awaited_{checker == nullptr ? nullptr : checker->end_of(stream)} {}
  order_wait(order_checker* checker, int device) noexcept
      : checker_{checker},
        awaited_{checker == nullptr ? nullptr : checker->end_of_device(device)} {}

  void is_over() const noexcept {
    if (checker_ != nullptr) checker_->learn(*awaited_);
  }

 private:
  order_checker* const checker_;
  const order_checker::point awaited_;
};

}  // namespace hipvmm::host_provider

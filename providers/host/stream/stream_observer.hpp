// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

namespace hipvmm::host_provider {

class race_clock;
class stream_queue;

/// A stream as observers count them; never used twice.
using stream_number = std::uint64_t;

/// Follows the order of work: the order checker, of which streams know nothing else.
/// Thread-safe.
class stream_observer {
 public:
  /// The finished work at a place of a stream; opaque to streams.
  using point = std::shared_ptr<const race_clock>;

  /// The finished work when the next operation of a stream could start.
  [[nodiscard]] virtual point place(const stream_queue& stream) noexcept = 0;
  /// The work that the host knows to be finished once it has waited for a stream, or for a device.
  [[nodiscard]] virtual point end_of(const stream_queue& stream) noexcept = 0;
  [[nodiscard]] virtual point end_of_device(int device) noexcept = 0;
  /// The host knows this to be finished.
  virtual void learn(const race_clock& finished) noexcept = 0;
  /// Later work of the stream comes after the finished work of another place.
  virtual void follow(const stream_queue& stream, const race_clock& finished) noexcept = 0;

  /// No more work will be submitted to the stream.
  virtual void retire(const stream_queue& stream) noexcept = 0;
  /// A wait for its device, or for the null stream, has not waited for this stream.
  virtual void overlook(const stream_queue& stream) noexcept = 0;

 protected:
  ~stream_observer() = default;
};

/// The host waits: all work submitted before this was made counts as finished when the wait is
/// over.
class host_wait {
 public:
  host_wait(stream_observer* observer, const stream_queue& stream) noexcept
      : observer_{observer}, awaited_{observer == nullptr ? nullptr : observer->end_of(stream)} {}
  host_wait(stream_observer* observer, int device) noexcept
      : observer_{observer},
        awaited_{observer == nullptr ? nullptr : observer->end_of_device(device)} {}

  void is_over() const noexcept {
    if (observer_ != nullptr) observer_->learn(*awaited_);
  }

 private:
  stream_observer* const observer_;
  const stream_observer::point awaited_;
};

}  // namespace hipvmm::host_provider

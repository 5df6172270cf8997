// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

namespace hipvmm::host_provider {

class race_clock;
class stream_queue;

/// The number of a stream; never used twice.
using stream_number = std::uint64_t;

/// The order checker, of which streams know only this. Thread-safe.
class stream_observer {
 public:
  /// Work that has finished at a place of a stream.
  using point = std::shared_ptr<const race_clock>;

  /// At the start of the stream's next operation.
  [[nodiscard]] virtual point place(const stream_queue& stream) noexcept = 0;
  /// After the host has waited for the stream, or the device.
  [[nodiscard]] virtual point end_of(const stream_queue& stream) noexcept = 0;
  [[nodiscard]] virtual point end_of_device(int device) noexcept = 0;
  virtual void learn(const race_clock& finished) noexcept = 0;
  virtual void follow(const stream_queue& stream, const race_clock& finished) noexcept = 0;

  virtual void retire(const stream_queue& stream) noexcept = 0;
  /// A wait for its device, or for the null stream, has not waited for this stream.
  virtual void overlook(const stream_queue& stream) noexcept = 0;

 protected:
  ~stream_observer() = default;
};

/// A wait of the host: work submitted before its construction counts as finished at its end.
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

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "stream/shared_event.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

struct captured_mark;

/// An event: the last mark recorded, in a stream or in a capture of one, replaced by each
/// recording.
class event_state {
 public:
  event_state(int device, bool keeps_time, std::shared_ptr<shared_event> shared = nullptr,
              bool is_opened = false) noexcept
      : device_{device},
        keeps_time_{keeps_time},
        is_opened_{is_opened},
        shared_{std::move(shared)} {}

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] bool keeps_time() const noexcept { return keeps_time_; }

  /// Null unless it is an interprocess event.
  [[nodiscard]] const std::shared_ptr<shared_event>& shared() const noexcept { return shared_; }
  [[nodiscard]] bool is_opened() const noexcept { return is_opened_; }

  /// `number` counts the records of all processes.
  void record(std::shared_ptr<mark> made, std::uint64_t number = 0) {
    const std::lock_guard lock{mutex_};
    last_.swap(made);
    number_ = number;
    captured_.reset();
  }
  void record_captured(std::shared_ptr<const captured_mark> made) {
    const std::lock_guard lock{mutex_};
    captured_ = std::move(made);
    last_.reset();
  }
  /// Null when never recorded, or recorded last in a capture.
  [[nodiscard]] std::shared_ptr<const mark> last() const {
    const std::lock_guard lock{mutex_};
    return last_;
  }
  /// False if the last record was in a capture.
  [[nodiscard]] bool is_recorded() const {
    const std::lock_guard lock{mutex_};
    if (captured_ != nullptr) return false;
    return last_ != nullptr || (shared_ != nullptr && shared_->last() != 0);
  }
  /// Null when another process made that record.
  [[nodiscard]] std::shared_ptr<const mark> mark_of(std::uint64_t number) const {
    const std::lock_guard lock{mutex_};
    return number_ == number ? last_ : nullptr;
  }
  /// Null unless recorded last in a capture.
  [[nodiscard]] std::shared_ptr<const captured_mark> captured() const {
    const std::lock_guard lock{mutex_};
    return captured_;
  }

 private:
  const int device_;
  const bool keeps_time_;
  const bool is_opened_;
  const std::shared_ptr<shared_event> shared_;
  mutable std::mutex mutex_;
  std::shared_ptr<mark> last_;
  std::uint64_t number_ = 0;
  std::shared_ptr<const captured_mark> captured_;
};

}  // namespace hipvmm::host_provider

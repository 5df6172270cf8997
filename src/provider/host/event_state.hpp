// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "stream_queue.hpp"

namespace hipvmm::host_provider {

struct captured_mark;

/// An event: the last mark recorded, in a stream or in a capture of one, replaced by each
/// recording.
class event_state {
 public:
  event_state(int device, bool keeps_time) noexcept : device_{device}, keeps_time_{keeps_time} {}

  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] bool keeps_time() const noexcept { return keeps_time_; }

  void record(std::shared_ptr<mark> made) {
    const std::lock_guard lock{mutex_};
    last_.swap(made);
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
  /// Null unless recorded last in a capture.
  [[nodiscard]] std::shared_ptr<const captured_mark> captured() const {
    const std::lock_guard lock{mutex_};
    return captured_;
  }

 private:
  const int device_;
  const bool keeps_time_;
  mutable std::mutex mutex_;
  std::shared_ptr<mark> last_;
  std::shared_ptr<const captured_mark> captured_;
};

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "stream/stream_owner.hpp"
#include "stream/stream_queue.hpp"

namespace hipvmm::host_provider {

/// The streams of one device, among them its legacy null stream and streams that are destroyed but
/// not yet drained. Thread-safe.
class stream_set {
 public:
  stream_set(stream_owner& owner, int device)
      : owner_{owner},
        device_{device},
        null_{std::make_shared<stream_queue>(owner, device, stream_order::null, 0)} {}

  [[nodiscard]] const std::shared_ptr<stream_queue>& null() const noexcept { return null_; }
  [[nodiscard]] std::shared_ptr<stream_queue> create(stream_order order, int priority);
  /// `leaving` is being destroyed: waits for streams of the device do not count it from now on.
  void overlook(const stream_queue& leaving);
  /// Forgets a closed stream that has drained, but not an error that was not reported.
  void retire(stream_queue& drained);

  /// As stream_owner::ahead_of(): if `target` is the null stream, earlier work of every blocking
  /// stream; if it is a blocking one, earlier work of the null stream.
  [[nodiscard]] std::vector<position> ahead_of(const stream_queue& target) const;
  /// The ends of all streams, or of the null and blocking ones only.
  [[nodiscard]] std::vector<position> ends(bool non_blocking_too) const;
  void wait_all() const;
  /// The first error that was not reported of all streams, or of the null and blocking ones, also
  /// ended ones. All their errors then count as reported.
  hipError_t take_errors(bool non_blocking_too);

 private:
  stream_owner& owner_;
  const int device_;
  const std::shared_ptr<stream_queue> null_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<stream_queue>> created_;
  std::array<hipError_t, 2> left_over_{};  // of blocking streams, and of non-blocking ones
};

}  // namespace hipvmm::host_provider

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
  /// The stream is being destroyed: from now on nothing that waits for streams of the device counts
  /// it.
  void overlook(const stream_queue& leaving);
  /// Forgets a closed stream that has drained; keeps the error that no call has returned.
  void retire(stream_queue& drained);

  /// The positions that work submitted now to `target` must wait for by the null stream's rules:
  /// earlier work of every blocking stream when `target` is the null stream, earlier work of the
  /// null stream when it is a blocking one.
  [[nodiscard]] std::vector<position> ahead_of(const stream_queue& target) const;
  /// The ends of all streams, or of the null and blocking ones only.
  [[nodiscard]] std::vector<position> ends(bool non_blocking_too) const;
  /// Waits for all work submitted so far.
  void wait_all() const;
  /// The first error not yet reported of all streams, or of the null and blocking ones only, gone
  /// ones included; all of them count as reported then.
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

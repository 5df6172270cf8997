// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "stream/operation.hpp"
#include "stream/stream_observer.hpp"

namespace hipvmm::host_provider {

struct position;
class stream_queue;

enum class completion { synchronous, asynchronous };

/// The machine, as far as streams and the layers above them need it. Thread-safe.
class stream_owner {
 public:
  /// Null unless HIPVMM_HOST_CHECK asks for it.
  [[nodiscard]] virtual stream_observer* observer() const noexcept = 0;

  /// Submits work in the order of the null stream's rules, or records it if the stream is captured.
  virtual hipError_t submit(stream_queue& queue, std::unique_ptr<operation> work,
                            completion how) = 0;
  template <std::derived_from<operation> Work>
  hipError_t submit(stream_queue& queue, Work work, completion how) {
    return submit(queue, std::unique_ptr<operation>{std::make_unique<Work>(std::move(work))}, how);
  }
  /// The positions that work submitted now must wait for by the null stream's rules.
  [[nodiscard]] virtual std::vector<position> ahead_of(const stream_queue& target) = 0;

  virtual void forget_capture(const stream_queue& closed) = 0;
  /// Called when it is closed and has run all of its work.
  virtual void retire(stream_queue& drained) = 0;

 protected:
  ~stream_owner() = default;
};

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/runtime/device.hpp>
#include "tool/replay/replay_job.hpp"
#include "tool/replay/replay_subject.hpp"
#include "tool/replay/replay_trace.hpp"

namespace bench {

using trace_epochs = std::vector<hipvmm::tool::replay_epoch>;

/// An allocator that serves whole traces.
struct trace_contender {
  std::string name;
  /// Replays the trace on an allocator that holds nothing at first and ends afterwards.
  /// Throws: std::runtime_error when a request fails.
  std::function<trace_epochs(const hipvmm::tool::trace&, const hipvmm::tool::replay_options&)>
      replay = {};
  std::string unavailable = {};  ///< why it cannot be measured; empty if it can
  /// Memory is deallocated in the stream that it was allocated in, and in no other.
  bool same_stream_only = false;
};

/// A resource to replay on, without clocks or counters of its own.
class trace_subject final : public hipvmm::tool::replay_subject {
 public:
  struct hooks {
    std::function<std::size_t()> peak_physical;  ///< since the start or `reset_peak`
    std::function<void()> reset_peak = [] {};
    std::function<void(hipvmm::stream_ref)> forget = [](hipvmm::stream_ref) {};
  };

  trace_subject(hipvmm::mr::memory_resource& resource, hooks asked)
      : resource_{resource}, hooks_{std::move(asked)} {}

  hipvmm::mr::memory_resource& resource() noexcept override { return resource_; }
  void begin_epoch() override { hooks_.reset_peak(); }
  void forget(hipvmm::stream_ref stream) override { hooks_.forget(stream); }
  [[nodiscard]] std::size_t peak_physical() const override { return hooks_.peak_physical(); }
  [[nodiscard]] hipvmm::tool::memory_held held() const override { return {peak_physical(), {}}; }
  [[nodiscard]] std::vector<hipvmm::driver_calls> calls() const override { return {}; }

 private:
  hipvmm::mr::memory_resource& resource_;
  hooks hooks_;
};

/// The loop that is timed, the same for every contender.
/// Throws: std::runtime_error when a request fails.
[[nodiscard]] trace_epochs replay_on(hipvmm::tool::replay_subject& subject,
                                     const hipvmm::tool::trace& recorded,
                                     const hipvmm::tool::replay_options& options);

/// vmm_pool_resource first, then hipMallocAsync, both with their own options.
[[nodiscard]] std::vector<trace_contender> library_contenders(hipvmm::device_ref device);
/// RMM's pool and its bins over a pool; none if the build has no RMM.
[[nodiscard]] std::vector<trace_contender> rmm_contenders();

}  // namespace bench

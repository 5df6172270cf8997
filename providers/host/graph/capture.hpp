// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/profile.hpp"
#include "graph/graph.hpp"
#include "graph/graph_memory.hpp"
#include "memory/address_map.hpp"
#include "stream/event_state.hpp"

namespace hipvmm::host_provider {

/// One capture: from hipStreamBeginCapture to hipStreamEndCapture in the same stream, its origin.
struct capture_sequence {
  std::uint64_t id;
  hipStreamCaptureMode mode;
  std::uint64_t thread;
  const stream_queue* origin;
  std::shared_ptr<graph> recorded;
  hipGraph_t handle;
  bool valid = true;
};

/// hipEventRecord in a captured stream.
struct captured_mark {
  std::weak_ptr<capture_sequence> sequence;  // gone when the capture is over
  std::vector<const graph_node*> last;
};

enum class pool_step { allocate, allocate_from_pool, free };

/// Not a std::thread::id, which may be reused after its thread has ended.
std::uint64_t calling_thread() noexcept;

/// As hipThreadExchangeStreamCaptureMode sets it.
hipStreamCaptureMode& thread_capture_mode() noexcept;

/// The captures under way, and the calls that they forbid. Thread-safe, and free of cost without a
/// capture. The refuse_... functions throw if a capture forbids the call, and invalidate the
/// captures that do; the graph of an invalidated one is lost.
class capture_set {
 public:
  /// Graphs allocate from `memory`.
  capture_set(graph_set& graphs, const profile& rules, const graph_memory_support& memory) noexcept
      : graphs_{graphs}, rules_{rules}, memory_{memory} {}

  void begin(stream_queue& origin, hipStreamCaptureMode mode);
  hipGraph_t end(stream_queue& origin);
  /// The stream has ended, and with it a capture that began in it.
  void forget(const stream_queue& leaving);

  struct description {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    std::uint64_t id = 0;
    hipGraph_t recorded = nullptr;
    const hipGraphNode_t* last = nullptr;  // until the stream is used again
    std::size_t last_count = 0;
  };
  /// Throws: failure with hipErrorStreamCaptureImplicit for the null stream if a capture forbids
  /// its use.
  description describe(const stream_queue& queue);

  [[nodiscard]] bool is_capturing(const stream_queue& queue) const;

  /// Each records its arguments instead of submitting them; false or empty if `queue` is not
  /// captured.
  [[nodiscard]] bool record(stream_queue& queue, const operation& work);
  [[nodiscard]] bool record_event(stream_queue& queue, event_state& recorded);
  [[nodiscard]] bool record_wait(stream_queue& queue, const event_state& awaited);
  [[nodiscard]] std::optional<address> record_allocation(stream_queue& queue,
                                                         const graph_memory_place& place,
                                                         std::size_t bytes);
  [[nodiscard]] bool record_free(stream_queue& queue, address start);

  void refuse_unrecorded(const stream_queue& queue);
  /// May wait for a device; by the modes of the captures and of the thread.
  void refuse_unsafe();
  void refuse_waiting_copy();
  void refuse_managed();
  /// `queue` is not captured.
  void refuse_pool_call(const stream_queue& queue, pool_step step);
  void refuse_wait_for(const stream_queue& queue);
  void refuse_wait_for_device(int device);
  void refuse_wait_for(const event_state& event);
  void refuse_question(const event_state& event);
  /// A query of an event that may be part of a capture.
  void refuse_captured(const event_state& event);

 private:
  using sequence = std::shared_ptr<capture_sequence>;
  struct participant {
    std::shared_ptr<stream_queue> queue;
    sequence capture;
    std::vector<const graph_node*> last;    // predecessors of the next node
    std::vector<hipGraphNode_t> described;  // `last` as it was asked for
  };
  using guard = std::lock_guard<std::mutex>;

  [[nodiscard]] bool any() const noexcept { return live_.load(std::memory_order_acquire) != 0; }
  [[nodiscard]] participant* find(const stream_queue& queue);
  participant* find_valid(const stream_queue& queue);
  /// Whether `queue` is the null stream, and the capture of `each` cannot go on if it is used.
  static bool excludes_null_stream(const participant& each, const stream_queue& queue) noexcept;
  void refuse_captured(const event_state& event, hipError_t refusal);
  template <class Forbids>
  void refuse_where(Forbids&& forbids, hipError_t code);
  void refuse(capture_check check, hipError_t code);
  /// Ends the capture if the profile says that a refusal does.
  void lose(capture_sequence& refusing) const noexcept;
  void refuse_null_stream(const stream_queue& queue);
  void append(participant& to, graph_form form);
  std::shared_ptr<graph> finish(const sequence& over) noexcept;

  graph_set& graphs_;
  const profile& rules_;
  const graph_memory_support memory_;
  std::atomic<std::size_t> live_{0};
  mutable std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<const stream_queue*, participant> streams_;
};

}  // namespace hipvmm::host_provider

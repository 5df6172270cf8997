// SPDX-License-Identifier: MIT
#include <bit>
#include <chrono>
#include <utility>

#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "pool/mem_pool_set.hpp"
#include "stream/operations.hpp"
#include "stream/shared_event.hpp"

namespace hipvmm::host_provider {
namespace {

// How far a record makes writes visible.
constexpr unsigned visibility_flags =
    hipEventReleaseToDevice | hipEventReleaseToSystem | hip_compat::event_disable_system_fence;
constexpr unsigned event_flags =
    hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess | visibility_flags;

void learn(const runtime& machine, const mark& reached) {
  if (race_checker* const checker = machine.checker()) checker->learn(*reached.seen);
}

// Of an interprocess event the last record of all processes.
struct last_record {
  std::shared_ptr<const mark> own;       // null when there is none, or another process made it
  std::shared_ptr<shared_event> shared;  // null when it is this process's own
  std::uint64_t number = 0;
};

last_record last_of(const event_state& event) {
  const std::shared_ptr<shared_event>& shared = event.shared();
  if (shared == nullptr) return {event.last(), nullptr};
  const std::uint64_t number = shared->last();
  if (std::shared_ptr<const mark> own = event.mark_of(number)) return {std::move(own), nullptr};
  return {nullptr, shared, number};
}

hipError_t create(runtime& machine, hipEvent_t* event, unsigned flags) {
  require(event != nullptr);
  require((flags & ~event_flags) == 0);
  require(std::popcount(flags & visibility_flags) <= 1);
  const bool keeps_time = (flags & hipEventDisableTiming) == 0;
  std::shared_ptr<shared_event> shared;
  if ((flags & hipEventInterprocess) != 0) {
    require(!keeps_time);
    shared = std::make_shared<shared_event>();
  }
  auto made = std::make_shared<event_state>(current_device(), keeps_time, std::move(shared));
  *event = to_handle<hipEvent_t>(machine.events().insert(std::move(made)));
  return hipSuccess;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipEventCreate(hipEvent_t* event) {
  return call(__func__, [&](runtime& machine) { return create(machine, event, hipEventDefault); });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned int flags) {
  return call(__func__, [&](runtime& machine) { return create(machine, event, flags); });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return call(__func__, [&](runtime& machine) {
    require(event != nullptr, hipErrorInvalidHandle);
    const bool is_known = machine.events().extract(from_handle(event)) != nullptr;
    const bool is_followed = machine.rules().destroyed_event != dead_event::refused;
    require(is_known, is_followed ? hipErrorContextIsDestroyed : hipErrorInvalidHandle);
    return hipSuccess;
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<event_state> recorded = machine.event(event);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    require(recorded->device() == queue->device(), hipErrorInvalidHandle);
    if (machine.captures().record_event(*queue, *recorded)) return hipSuccess;
    stream_set& streams = machine.device(queue->device()).streams;
    if (recorded->shared() == nullptr) {
      recorded->record(queue->put_mark(streams.ahead_of(*queue)));
      return hipSuccess;
    }
    require(recorded->shared()->has_place() || !stream_queue::is_in_host_function(),
            hipErrorIllegalState);
    const std::uint64_t number = recorded->shared()->begin_record();
    try {
      recorded->record(queue->put_mark(streams.ahead_of(*queue)), number);
      return machine.submit(*queue, shared_mark_operation{recorded->shared(), number},
                            completion::asynchronous);
    } catch (...) {
      recorded->shared()->reach(number);  // nobody waits for work that was never submitted
      throw;
    }
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<event_state> awaited = machine.event(event);
    machine.captures().refuse_wait_for(*awaited);
    const auto [last, shared, number] = last_of(*awaited);
    if (shared != nullptr) {
      require(shared->reached(number) || !stream_queue::is_in_host_function(),
              hipErrorIllegalState);
      return shared->wait(number);
    }
    if (last == nullptr) return hipSuccess;
    last->where.wait();
    learn(machine, *last);
    machine.pools().release_surplus();
    return machine.take_errors(*last->where.queue);
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<event_state> awaited = machine.event(event);
    machine.captures().refuse_question(*awaited);
    const auto [last, shared, number] = last_of(*awaited);
    if (shared != nullptr) return shared->reached(number) ? hipSuccess : hipErrorNotReady;
    if (last == nullptr) return hipSuccess;
    if (!last->where.reached()) return hipErrorNotReady;
    learn(machine, *last);
    return machine.take_errors(*last->where.queue);
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return call(__func__, [&](runtime& machine) {
    require(milliseconds != nullptr);
    const std::shared_ptr<event_state> from = machine.event(start);
    const std::shared_ptr<event_state> to = machine.event(stop);
    require(from->keeps_time() && to->keeps_time(), hipErrorInvalidHandle);
    require(from->device() == to->device(), hipErrorInvalidHandle);
    machine.captures().refuse_captured(*from);
    machine.captures().refuse_captured(*to);
    const std::shared_ptr<const mark> first = from->last();
    const std::shared_ptr<const mark> last = to->last();
    require(first != nullptr && last != nullptr, hipErrorInvalidHandle);
    if (!first->where.reached() || !last->where.reached()) return hipErrorNotReady;
    for (const auto& each : {first, last}) learn(machine, *each);
    *milliseconds = std::chrono::duration<float, std::milli>{last->when - first->when}.count();
    return hipSuccess;
  });
}

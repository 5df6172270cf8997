// SPDX-License-Identifier: MIT
#include "machine/runtime.hpp"

#include <pthread.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "graph/graph.hpp"
#include "pool/mem_pool_set.hpp"
#include "stream/thread_streams.hpp"

namespace hipvmm::host_provider {
namespace {

std::atomic<runtime*> instance{nullptr};

struct environment {
  settings values;
  std::string complaint;  // empty: valid
};

environment read_environment() {
  try {
    return {read_settings(), {}};
  } catch (const std::invalid_argument& error) {
    return {{}, error.what()};
  }
}

const environment& process_environment() {
  // Read once, by the first caller; the others wait.
  static const environment& once = *[] {
    auto* const read = new environment{read_environment()};
    fault_plan::get().replace(read->values.faults);
    return read;
  }();
  return once;
}

// Workers and locks do not survive fork. So a child uses no inherited object, and their handles are
// unknown.
void forget_in_child() {
  instance.store(nullptr, std::memory_order_relaxed);
  leave_thread_streams();
  forget_thread_state();
  thread_capture_mode() = hipStreamCaptureModeGlobal;
  chunk::forget_all();
  stream_queue::leave_workers();
}

}  // namespace

runtime& runtime::get() {
  runtime* current = instance.load(std::memory_order_acquire);
  if (current != nullptr) return *current;
  auto* const made = new runtime;
  if (instance.compare_exchange_strong(current, made, std::memory_order_acq_rel)) {
    static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);
    static_cast<void>(registered);
    return *made;
  }
  delete made;
  return *current;
}

runtime* runtime::existing() noexcept { return instance.load(std::memory_order_acquire); }

runtime::runtime()
    : configuration_{process_environment().values},
      valid_{process_environment().complaint.empty()},
      addresses_{configuration_},
      chunks_{rules()} {
  if (!valid_) {
    static const int printed =
        std::fprintf(stderr, "%s\n", process_environment().complaint.c_str());
    static_cast<void>(printed);
  }
  if (configuration_.check_races) checker_ = std::make_unique<race_checker>(addresses_);
  const auto count = static_cast<int>(configuration_.visible.size());
  for (int id = 0; valid_ && id < count; ++id) {
    devices_.push_back(std::make_unique<device_state>(*this, id, configuration_));
  }
  std::vector<device_memory*> memory;
  for (const std::unique_ptr<device_state>& each : devices_) memory.push_back(&each->memory);
  pools_ = std::make_unique<mem_pool_set>(
      pool_support{rules(), places_, addresses_, *this, checker()}, std::move(memory));
  graphs_ = std::make_unique<graph_set>();
  captures_ = std::make_unique<capture_set>(
      *graphs_, rules(), graph_memory_support{addresses_, graphs_->memory, checker()});
}

runtime::~runtime() = default;

device_state& runtime::device(int id, hipError_t code) {
  require(has_device(id), code);
  return *devices_[static_cast<std::size_t>(id)];
}

bool runtime::linked(int a, int b) const noexcept { return (peers_.linked_to(a) & only(b)) != 0; }

std::shared_ptr<stream_queue> runtime::stream(hipStream_t handle, hipError_t code) {
  const int id = current_device();
  if (hip_compat::is_legacy_stream(handle)) return device(id).streams.null();
  if (handle == hipStreamPerThread) return per_thread_stream(device(id).streams);
  std::shared_ptr<stream_queue> found = streams_.find(from_handle(handle));
  if (found == nullptr) note_stale_stream();
  require(found != nullptr, code);
  return found;
}

bool runtime::has_stream(hipStream_t handle) const {
  return hip_compat::is_legacy_stream(handle) || handle == hipStreamPerThread ||
         streams_.find(from_handle(handle)) != nullptr;
}

std::shared_ptr<event_state> runtime::event(hipEvent_t handle) {
  std::shared_ptr<event_state> found = events_.find(from_handle(handle));
  if (found != nullptr) return found;
  if (handle != nullptr && rules().destroyed_event != dead_event::refused) {
    throw crash{"follows an event that was destroyed or never made", "ROCm/clr, hip_event.cpp"};
  }
  throw failure{hipErrorInvalidHandle};
}

hipError_t runtime::submit(stream_queue& queue, std::unique_ptr<operation> work, completion how) {
  if (captures_->record(queue, *work)) return hipSuccess;
  return enqueue(queue, std::move(work), how);
}

hipError_t runtime::submit_beside_capture(stream_queue& queue, std::unique_ptr<operation> work) {
  return enqueue(queue, std::move(work), completion::asynchronous);
}

hipError_t runtime::enqueue(stream_queue& queue, std::unique_ptr<operation> work, completion how) {
  std::vector<position> after = ahead_of(queue);
  race_submission noted{checker_.get(), queue, *work};
  if (how == completion::synchronous) {
    const host_wait wait{checker_.get(), queue};
    const hipError_t result = queue.run(std::move(work), std::move(after));
    if (result != hipSuccess) return result;
    wait.is_over();
  } else {
    queue.submit(std::move(work), std::move(after));
  }
  noted.accept();
  return hipSuccess;
}

std::vector<position> runtime::ahead_of(const stream_queue& target) {
  return device(target.device()).streams.ahead_of(target);
}

void runtime::wait_all() const {
  for (const std::unique_ptr<device_state>& each : devices_) each->streams.wait_all();
}

hipError_t runtime::take_errors(stream_queue& awaited) {
  if (awaited.order() != stream_order::null) return awaited.take_error();
  return device(awaited.device()).streams.take_errors(false);
}

void runtime::forget_capture(const stream_queue& closed) { captures_->forget(closed); }

void runtime::end(const tracked_range& allocation) {
  if (checker_ != nullptr) checker_->end(allocation.start, allocation.bytes);
  addresses_.free_allocation(allocation.kind, allocation.start);
}

void runtime::retire(stream_queue& drained) { device(drained.device()).streams.retire(drained); }

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#include "runtime.hpp"

#include <pthread.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "capture.hpp"
#include "core/hip_compat.hpp"
#include "failure.hpp"
#include "fault_plan.hpp"
#include "graph.hpp"
#include "mem_pool_set.hpp"
#include "thread_state.hpp"

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
  // Read once, by whoever comes first; the others wait.
  static const environment& once = *[] {
    auto* const read = new environment{read_environment()};
    fault_plan::get().replace(read->values.faults);
    return read;
  }();
  return once;
}

// Workers and locks do not survive fork, so a child starts afresh: what it inherited is left alone
// and its handles are unknown.
void forget_in_child() { instance.store(nullptr, std::memory_order_relaxed); }

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
    static const int told = std::fprintf(stderr, "%s\n", process_environment().complaint.c_str());
    static_cast<void>(told);
  }
  if (configuration_.check_order) checker_ = std::make_unique<order_checker>(*this);
  const auto count = static_cast<int>(configuration_.visible.size());
  for (int id = 0; valid_ && id < count; ++id) {
    devices_.push_back(std::make_unique<device_state>(*this, id, configuration_));
  }
  pools_ = std::make_unique<mem_pool_set>(*this);
  graphs_ = std::make_unique<graph_set>();
  captures_ = std::make_unique<capture_set>(*this);
}

runtime::~runtime() = default;

device_state& runtime::device(int id, hipError_t code) {
  require(has_device(id), code);
  return *devices_[static_cast<std::size_t>(id)];
}

int runtime::device_at(int place) const noexcept {
  for (int id = 0; id < device_count(); ++id) {
    if (place_of(id) == place) return id;
  }
  return hipInvalidDeviceId;
}

device_set runtime::places_of(device_set ids) const noexcept {
  device_set places = 0;
  for (int id = 0; id < device_count(); ++id) {
    if ((ids & only(id)) != 0) places |= only(place_of(id));
  }
  return places;
}

device_set runtime::devices_at(device_set places) const noexcept {
  device_set ids = 0;
  for (int id = 0; id < device_count(); ++id) {
    if ((places & only(place_of(id))) != 0) ids |= only(id);
  }
  return ids;
}

bool runtime::linked(int a, int b) const noexcept {
  return (configuration_.links[static_cast<std::size_t>(a)] & only(b)) != 0;
}

device_set runtime::peers_enabled(int id) const noexcept {
  return devices_[static_cast<std::size_t>(id)]->peers.load(std::memory_order_acquire);
}

std::shared_ptr<stream_queue> runtime::stream(hipStream_t handle, hipError_t code) {
  const int id = current_device();
  if (hip_compat::is_legacy_stream(handle)) return device(id).streams.null();
  if (handle == hipStreamPerThread) return per_thread_stream(*this, id);
  std::shared_ptr<stream_queue> found = streams_.find(from_handle(handle));
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

hipError_t runtime::submit(stream_queue& queue, operation work, completion how) {
  if (captures_->record(queue, work)) return hipSuccess;
  return enqueue(queue, std::move(work), how);
}

hipError_t runtime::submit_beside_capture(stream_queue& queue, operation work) {
  return enqueue(queue, std::move(work), completion::asynchronous);
}

hipError_t runtime::enqueue(stream_queue& queue, operation work, completion how) {
  std::vector<position> after = device(queue.device()).streams.ahead_of(queue);
  order_submission noted{checker_.get(), queue, work};
  if (how == completion::synchronous) {
    const order_wait wait{checker_.get(), queue};
    const hipError_t result = queue.run(std::move(work), std::move(after));
    if (result != hipSuccess) return result;
    wait.is_over();
  } else {
    queue.submit(std::move(work), std::move(after));
  }
  noted.accept();
  return hipSuccess;
}

void runtime::wait_all() const {
  for (const std::unique_ptr<device_state>& each : devices_) each->streams.wait_all();
}

void runtime::forget_capture(const stream_queue& closed) { captures_->forget(closed); }

void runtime::end(const region& allocation) {
  if (checker_ != nullptr) checker_->end(allocation.start, allocation.bytes);
  addresses_.free_allocation(allocation.kind, allocation.start);
}

void runtime::retire(stream_queue& drained) { device(drained.device()).streams.retire(drained); }

}  // namespace hipvmm::host_provider

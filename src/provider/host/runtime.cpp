// SPDX-License-Identifier: MIT
#include "runtime.hpp"

#include <pthread.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/hip_compat.hpp"
#include "failure.hpp"
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
  static const environment& once = *new environment{read_environment()};
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

runtime::runtime()
    : configuration_{process_environment().values},
      valid_{process_environment().complaint.empty()},
      addresses_{configuration_} {
  if (!valid_) {
    static const int told = std::fprintf(stderr, "%s\n", process_environment().complaint.c_str());
    static_cast<void>(told);
  }
  for (int id = 0; valid_ && id < configuration_.devices; ++id) {
    devices_.push_back(std::make_unique<device_state>(*this, id, configuration_.device_bytes));
  }
  pools_ = std::make_unique<mem_pool_set>(*this);
}

runtime::~runtime() = default;

device_state& runtime::device(int id, hipError_t code) {
  require(has_device(id), code);
  return *devices_[static_cast<std::size_t>(id)];
}

bool runtime::linked(int a, int b) const noexcept {
  return (configuration_.links[static_cast<std::size_t>(a)] & only(b)) != 0;
}

device_set runtime::peers_enabled(int id) const noexcept {
  return devices_[static_cast<std::size_t>(id)]->peers.load(std::memory_order_acquire);
}

std::shared_ptr<stream_queue> runtime::stream(hipStream_t handle) {
  const int id = current_device();
  if (hip_compat::is_legacy_stream(handle)) return device(id).streams.null();
  if (handle == hipStreamPerThread) return per_thread_stream(*this, id);
  std::shared_ptr<stream_queue> found = streams_.find(from_handle(handle));
  require(found != nullptr, hipErrorInvalidHandle);
  return found;
}

hipError_t runtime::submit(stream_queue& queue, operation work, completion how) {
  std::vector<position> after = device(queue.device()).streams.ahead_of(queue);
  if (how == completion::synchronous) return queue.run(std::move(work), std::move(after));
  queue.submit(std::move(work), std::move(after));
  return hipSuccess;
}

void runtime::wait_all() const {
  for (const std::unique_ptr<device_state>& each : devices_) each->streams.wait_all();
}

void runtime::retire(stream_queue& drained) { device(drained.device()).streams.retire(drained); }

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#include "thread_state.hpp"

#include <map>
#include <utility>

#include "failure.hpp"
#include "runtime.hpp"

namespace hipvmm::host_provider {
namespace {

// Trivial, so that they can be used until the very end of the thread.
thread_local hipError_t thread_last_error = hipSuccess;
thread_local int thread_device = 0;
thread_local bool thread_ended = false;

class own_streams {
 public:
  own_streams() = default;
  own_streams(const own_streams&) = delete;
  own_streams& operator=(const own_streams&) = delete;
  ~own_streams() {
    thread_ended = true;
    adopt(runtime::get());
    for (const auto& [device, stream] : streams_) stream->close();
  }

  std::shared_ptr<stream_queue> on(runtime& machine, int device) {
    adopt(machine);
    std::shared_ptr<stream_queue>& stream = streams_[device];
    if (!stream) stream = machine.device(device).streams.create(stream_order::blocking, 0);
    return stream;
  }

 private:
  // In a child after fork the inherited streams have no workers, and their condition variables may
  // have waiters that no longer exist: they cannot be destroyed, only left.
  void adopt(runtime& machine) {
    if (owner_ != nullptr && owner_ != &machine) {
      static_cast<void>(new auto{std::exchange(streams_, {})});
    }
    owner_ = &machine;
  }

  runtime* owner_ = nullptr;
  std::map<int, std::shared_ptr<stream_queue>> streams_;
};

thread_local own_streams streams_of_thread;

}  // namespace

hipError_t& last_error() noexcept { return thread_last_error; }
int& current_device() noexcept { return thread_device; }

std::shared_ptr<stream_queue> per_thread_stream(runtime& machine, int device) {
  require(!thread_ended, hipErrorContextIsDestroyed);
  return streams_of_thread.on(machine, device);
}

}  // namespace hipvmm::host_provider

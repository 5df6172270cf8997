// SPDX-License-Identifier: MIT
#include "stream/thread_streams.hpp"

#include <map>
#include <utility>

#include "base/failure.hpp"
#include "stream/stream_set.hpp"

namespace hipvmm::host_provider {
namespace {

// Trivial, so that they can be used until the very end of the thread.
thread_local bool thread_ended = false;
thread_local bool has_left_streams = false;

class own_streams {
 public:
  own_streams& operator=(own_streams&&) = delete;
  ~own_streams() {
    thread_ended = true;
    leave_inherited();
    for (const auto& [device, stream] : streams_) stream->close();
  }

  std::shared_ptr<stream_queue> on(stream_set& device) {
    leave_inherited();
    std::shared_ptr<stream_queue>& stream = streams_[&device];
    if (!stream) stream = device.create(stream_order::blocking, 0);
    return stream;
  }

 private:
  // In a child after fork the inherited streams have no workers, and their condition variables may
  // have waiters that do not exist: they cannot be destroyed, and are leaked.
  void leave_inherited() {
    if (std::exchange(has_left_streams, false)) {
      static_cast<void>(new auto{std::exchange(streams_, {})});
    }
  }

  std::map<stream_set*, std::shared_ptr<stream_queue>> streams_;
};

thread_local own_streams streams_of_thread;

}  // namespace

std::shared_ptr<stream_queue> per_thread_stream(stream_set& device) {
  require(!thread_ended, hipErrorContextIsDestroyed);
  return streams_of_thread.on(device);
}

void leave_thread_streams() noexcept { has_left_streams = true; }

}  // namespace hipvmm::host_provider

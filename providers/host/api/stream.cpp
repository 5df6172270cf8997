// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "machine/device_properties.hpp"
#include "pool/mem_pool_set.hpp"
#include "stream/operations.hpp"
#include "stream/shared_event.hpp"

// The header of 5.2 lacks it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipStreamGetDevice(hipStream_t stream,
                                                                        hipDevice_t* device);

namespace hipvmm::host_provider {
namespace {

hipError_t create(runtime& machine, hipStream_t* stream, unsigned flags, int priority,
                  std::vector<std::uint32_t> units = {}) {
  require(stream != nullptr);
  require(flags == hipStreamDefault || flags == hipStreamNonBlocking);
  const stream_order order =
      flags == hipStreamNonBlocking ? stream_order::non_blocking : stream_order::blocking;
  stream_set& streams = machine.device(current_device()).streams;
  const std::shared_ptr<stream_queue> made =
      streams.create(order, std::clamp(priority, greatest_priority, least_priority));
  made->set_compute_units(std::move(units));
  try {
    *stream = to_handle<hipStream_t>(machine.streams().insert(made));
    if (race_checker* const checker = machine.checker()) {
      checker->name(*made, from_handle(*stream));
    }
  } catch (...) {
    made->close();
    throw;
  }
  return hipSuccess;
}

std::vector<std::uint32_t> all_compute_units(const runtime& machine, int device) {
  constexpr unsigned word_bits = 32;
  auto left =
      static_cast<unsigned>(attribute_of(machine, device, hipDeviceAttributeMultiprocessorCount));
  std::vector<std::uint32_t> words;
  for (; left >= word_bits; left -= word_bits) words.push_back(~std::uint32_t{0});
  if (left != 0) words.push_back((std::uint32_t{1} << left) - 1);
  return words;
}

// If the release overlooks streams that end, hipStreamDestroy waits for the stream's work, unless a
// wait for the device counts the stream already: then only that waits.
void destroy(runtime& machine, stream_queue& leaving, hipStream_t handle) {
  const bool overlooked = machine.rules().ending == ending_stream::overlooked;
  if (overlooked && stream_queue::is_in_host_function())
    require(leaving.idle(), hipErrorIllegalState);
  const host_wait noted{machine.checker(), leaving};
  if (overlooked) machine.device(leaving.device()).streams.overlook(leaving);
  require(machine.streams().extract(from_handle(handle), leaving),
          machine.rules().destroyed_stream);
  const position last = leaving.end();
  const bool is_counted = leaving.is_counted_by_device_wait();
  leaving.close();
  if (!overlooked || is_counted) return;
  last.wait();
  noted.is_over();
}

// Work of the null stream is done when that of the streams for which it waits is.
std::vector<position> awaited_by(runtime& machine, stream_queue& queue) {
  if (queue.order() == stream_order::null) {
    return machine.device(queue.device()).streams.ends(false);
  }
  return {queue.end()};
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipStreamCreate(hipStream_t* stream) {
  return call(__func__,
              [&](runtime& machine) { return create(machine, stream, hipStreamDefault, 0); });
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  return call(__func__, [&](runtime& machine) { return create(machine, stream, flags, 0); });
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority) {
  return call(__func__, [&](runtime& machine) { return create(machine, stream, flags, priority); });
}

hipError_t hipExtStreamCreateWithCUMask(hipStream_t* stream, uint32_t words, const uint32_t* mask) {
  return call(__func__, [&](runtime& machine) {
    require(stream != nullptr, hipErrorInvalidHandle);
    require(words != 0 && mask != nullptr);
    std::vector<std::uint32_t> units = all_compute_units(machine, current_device());
    units.resize(std::min<std::size_t>(units.size(), words));
    for (std::size_t i = 0; i < units.size(); ++i) units[i] &= mask[i];
    // No unit means all.
    if (std::ranges::count(units, 0U) == std::ssize(units)) units.clear();
    return create(machine, stream, hipStreamDefault, 0, std::move(units));
  });
}

hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t* mask) {
  return call(__func__, [&](runtime& machine) {
    require(words != 0 && mask != nullptr);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    const std::vector<std::uint32_t> all = all_compute_units(machine, queue->device());
    require(words >= all.size());
    const std::vector<std::uint32_t>& own = queue->compute_units();
    std::ranges::copy(own.empty() ? all : own, mask);
    return hipSuccess;
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const bool is_own =
        !hipvmm::hip_compat::is_legacy_stream(stream) && stream != hipStreamPerThread;
    require(is_own, hipErrorInvalidHandle);
    const std::shared_ptr<stream_queue> leaving = machine.streams().find(from_handle(stream));
    if (leaving == nullptr) machine.note_stale_stream();
    require(leaving != nullptr, machine.rules().destroyed_stream);
    destroy(machine, *leaving, stream);
    return hipSuccess;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    machine.captures().refuse_wait_for(*queue);
    const host_wait noted{machine.checker(), *queue};
    for (const position& each : awaited_by(machine, *queue)) each.wait();
    noted.is_over();
    machine.pools().release_surplus();
    return machine.take_errors(*queue);
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    machine.captures().refuse_wait_for(*queue);
    const host_wait noted{machine.checker(), *queue};
    for (const position& each : awaited_by(machine, *queue)) {
      if (!each.reached()) return hipErrorNotReady;
    }
    noted.is_over();
    return machine.take_errors(*queue);
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(flags == 0);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream, hipErrorInvalidHandle);
    const bool may_be_gone =
        event != nullptr && machine.rules().destroyed_event == dead_event::ignored_by_waits;
    if (may_be_gone && machine.events().find(from_handle(event)) == nullptr) return hipSuccess;
    const std::shared_ptr<event_state> awaited = machine.event(event);
    if (machine.captures().record_wait(*queue, *awaited)) return hipSuccess;
    std::shared_ptr<const mark> last = awaited->last();
    if (const std::shared_ptr<shared_event>& shared = awaited->shared()) {
      const std::uint64_t number = shared->last();
      last = awaited->mark_of(number);
      if (last == nullptr) {  // the record of another process, or none
        if (shared->reached(number)) return hipSuccess;
        return machine.submit(*queue, shared_wait_operation{shared, number},
                              completion::asynchronous);
      }
    }
    if (last == nullptr) return hipSuccess;
    queue->follow(*last);
    if (last->where.reached()) return hipSuccess;
    return machine.submit(*queue, wait_operation{last->where}, completion::asynchronous);
  });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int* flags) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr);
    if (stream == nullptr) {
      require(machine.rules().null_stream_flags == hipSuccess, machine.rules().null_stream_flags);
    }
    *flags = machine.stream(stream)->order() == stream_order::non_blocking ? hipStreamNonBlocking
                                                                           : hipStreamDefault;
    return hipSuccess;
  });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return call(__func__, [&](runtime& machine) {
    require(priority != nullptr);
    *priority = machine.stream(stream)->priority();
    return hipSuccess;
  });
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* user_data,
                                unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(callback != nullptr && flags == 0);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    if (machine.rules().callback == beside_capture::taken)
      return machine.submit_beside_capture(
          *queue, std::make_unique<host_operation>(callback, stream, user_data));
    return machine.submit(*queue, host_operation{callback, stream, user_data},
                          completion::asynchronous);
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
  return call(__func__, [&](runtime& machine) {
    require(function != nullptr);
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    return machine.submit(*queue, host_operation{function, user_data}, completion::asynchronous);
  });
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return call(__func__, [&](runtime& machine) {
    require(device != nullptr);
    *device = machine.stream(stream)->device();
    return hipSuccess;
  });
}

int hipGetStreamDeviceId(hipStream_t stream) {
  int id = -1;
  static_cast<void>(call(__func__, [&](runtime& machine) {
    id = machine.stream(stream)->device();
    return hipSuccess;
  }));
  return id;
}

// SPDX-License-Identifier: MIT
#include <cstring>
#include <utility>

#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/tracked_range.hpp"
#include "stream/operations.hpp"

namespace hipvmm::host_provider {
namespace {

// hipMemcpyAsync has read pageable memory when it returns; up to this many bytes a private copy is
// cheaper than waiting.
constexpr std::size_t snapshot_limit = std::size_t{64} << 10U;

struct copy_arguments {
  void* destination;
  const void* source;
  std::size_t bytes;
};

/// How long the calling thread waits for its copy.
enum class copy_wait {
  none,
  finished,
  unless_inside_device,  ///< the same, but for copies inside one device
  ordered,  ///< not at all: work that the null streams of both devices order comes before or after
};

endpoint endpoint_at(runtime& machine, const void* pointer, int device, bool staged) {
  return {address_of(pointer), machine.addresses().classify(address_of(pointer)), device, staged};
}

// Pinned host memory is at home on both sides: it has a device address, which is the same.
bool is_host(const endpoint& side) noexcept { return side.where != memory_class::device; }
bool is_device(const endpoint& side) noexcept { return side.where != memory_class::pageable; }

bool is_known(int kind) noexcept {
  return (kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault) ||
         kind == hip_compat::device_to_device_no_cu;
}

bool matches(int kind, const endpoint& to, const endpoint& from) {
  switch (kind) {
    case hipMemcpyHostToHost:
      return is_host(from) && is_host(to);
    case hipMemcpyHostToDevice:
      return is_host(from) && is_device(to);
    case hipMemcpyDeviceToHost:
      return is_device(from) && is_host(to);
    case hipMemcpyDeviceToDevice:
    case hip_compat::device_to_device_no_cu:
      return is_device(from) && is_device(to);
    case hipMemcpyDefault:
      return true;
    default:
      return false;
  }
}

bool is_taken(const runtime& machine, int kind, const endpoint& to, const endpoint& from) {
  const bool has_hip_memory = is_device(to) || is_device(from);
  require(is_known(kind) || machine.rules().bad_kind == unknown_kind::taken,
          hipErrorInvalidMemcpyDirection);
  return matches(kind, to, from) ||
         (has_hip_memory && machine.rules().copy_kind == kind_check::of_host_memory);
}

// Managed memory is not the host's: copies of it go the way of a device's.
bool is_of_host(runtime& machine, const endpoint& side) {
  if (side.where == memory_class::pageable) return true;
  const std::optional<tracked_range> found = machine.addresses().find(side.start);
  return found && is_pinned(*found);
}

bool is_inside_device(runtime& machine, const copy_request& work) {
  const auto owner = [&machine](const endpoint& side) {
    const std::optional<tracked_range> found = machine.addresses().find(side.start);
    return side.where == memory_class::device && found ? found->device : hipInvalidDeviceId;
  };
  const int of_source = owner(work.source);
  return of_source != hipInvalidDeviceId && of_source == owner(work.destination);
}

// Where the engine of the source's device copies, that device must have rights to both sides.
void choose_engine(const runtime& machine, copy_request& work) {
  if (machine.rules().engine == copy_engine::of_stream) return;
  const auto device_at = [&](const endpoint& side) {
    const auto found = machine.addresses().find(side.start);
    return found && found->kind == memory_kind::mapping ? found->device : -1;
  };
  const int source = device_at(work.source);
  if (source < 0 || device_at(work.destination) < 0) return;
  work.source.device = source;
  work.destination.device = source;
}

hipError_t submit_copy(runtime& machine, stream_queue& queue, copy_request work, copy_wait until) {
  const std::size_t bytes = work.bytes;
  choose_engine(machine, work);
  require(allowed(machine.access(), work.destination, right::write, bytes));
  require(allowed(machine.access(), work.source, right::read, bytes));
  if (until != copy_wait::none) machine.captures().refuse_waiting_copy();
  const bool waits = until == copy_wait::finished ||
                     (until == copy_wait::unless_inside_device && !is_inside_device(machine, work));
  completion how = waits ? completion::synchronous : completion::asynchronous;
  // A graph reads and writes pageable memory when it runs.
  if (machine.captures().is_capturing(queue))
    return machine.submit(queue, copy_operation{std::move(work), machine.access()}, how);
  if (work.destination.where == memory_class::pageable ||
      (is_of_host(machine, work.destination) && is_of_host(machine, work.source))) {
    how = completion::synchronous;
  } else if (work.source.where == memory_class::pageable && how == completion::asynchronous) {
    if (bytes <= snapshot_limit) {
      work.snapshot = std::make_unique_for_overwrite<std::byte[]>(bytes);
      std::memcpy(work.snapshot.get(), pointer_to(work.source.start), bytes);
      work.source.start = address_of(work.snapshot.get());
    } else {
      how = completion::synchronous;
    }
  }
  return machine.submit(queue, copy_operation{std::move(work), machine.access()}, how);
}

// Some releases let the owner of a chunk carry its bytes from and to the host, whatever the stream.
void choose_host_copier(runtime& machine, endpoint& mapped, const endpoint& host) {
  if (machine.rules().host_copies == host_copy::by_stream || !is_of_host(machine, host)) return;
  const std::optional<tracked_range> found = machine.addresses().find(mapped.start);
  if (found && found->kind == memory_kind::mapping) mapped.device = found->device;
}

// Makes later work of one stream come after all work of another so far.
void put_behind(runtime& machine, stream_queue& later, stream_queue& earlier) {
  const stream_set& streams = machine.device(earlier.device()).streams;
  const std::shared_ptr<const mark> end = earlier.put_mark(streams.ahead_of(earlier));
  later.follow(*end);
  if (end->where.reached()) return;
  static_cast<void>(machine.submit(later, wait_operation{end->where}, completion::asynchronous));
}

// A copy that waits, between the host and memory of a device that is not the stream's.
void put_behind_owner(runtime& machine, stream_queue& queue, const endpoint& side,
                      const endpoint& host) {
  if (!is_of_host(machine, host) || side.where != memory_class::device) return;
  const std::optional<tracked_range> found = machine.addresses().find(side.start);
  if (!found || found->device == queue.device() || !machine.has_device(found->device)) return;
  put_behind(machine, queue, *machine.device(found->device).streams.null());
}

hipError_t copy(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                copy_wait until) {
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  endpoint to = endpoint_at(machine, what.destination, queue->device(), true);
  endpoint from = endpoint_at(machine, what.source, queue->device(), true);
  require(is_taken(machine, kind, to, from));
  choose_host_copier(machine, to, from);
  choose_host_copier(machine, from, to);
  if (stream == nullptr && until != copy_wait::none &&
      machine.rules().host_copies_behind == host_copy_order::owner_too) {
    put_behind_owner(machine, *queue, to, from);
    put_behind_owner(machine, *queue, from, to);
  }
  return submit_copy(machine, *queue, {to, from, what.bytes}, until);
}

hipError_t copy_peer(runtime& machine, const copy_arguments& what, int destination_device,
                     int source_device, hipStream_t stream, copy_wait until) {
  require(machine.has_device(destination_device), hipErrorInvalidDevice);
  require(machine.has_device(source_device), hipErrorInvalidDevice);
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  const bool compares = machine.rules().copied_devices == peer_devices::compared;
  const endpoint to = endpoint_at(machine, what.destination, destination_device, !compares);
  const endpoint from = endpoint_at(machine, what.source, source_device, !compares);
  require(compares ? is_device(to) && is_device(from) : is_device(to) || is_device(from));
  std::vector<std::shared_ptr<stream_queue>> others;
  for (const int id : {destination_device, source_device}) {
    const bool is_other = until == copy_wait::ordered && id != queue->device();
    if (is_other) others.push_back(machine.device(id).streams.null());
  }
  for (const auto& each : others) put_behind(machine, *queue, *each);
  const hipError_t result = submit_copy(machine, *queue, {to, from, what.bytes}, until);
  for (const auto& each : others) put_behind(machine, *each, *queue);
  return result;
}

// Whether the header declares the host source of hipMemcpyHtoD const depends on its release.
template <class Result, class Destination, class Source, class... Rest>
Source source_parameter(Result (*)(Destination, Source, Rest...));
using host_source = decltype(source_parameter(&hipMemcpyHtoD));
using async_host_source = decltype(source_parameter(&hipMemcpyHtoDAsync));

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemcpy(void* destination, const void* source, size_t bytes, hipMemcpyKind kind) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, value_of(kind), nullptr,
                copy_wait::unless_inside_device);
  });
}

hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(is_known(value_of(kind)) || machine.rules().bad_kind != unknown_kind::refused_in_stream,
            hipErrorInvalidMemcpyDirection);
    return copy(machine, {destination, source, bytes}, value_of(kind), stream, copy_wait::none);
  });
}

hipError_t hipMemcpyWithStream(void* destination, const void* source, size_t bytes,
                               hipMemcpyKind kind, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const bool recorded = machine.captures().is_capturing(*machine.stream(stream));
    return copy(machine, {destination, source, bytes}, value_of(kind), stream,
                recorded ? copy_wait::none : copy_wait::finished);
  });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t destination, host_source source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyHostToDevice, nullptr,
                copy_wait::finished);
  });
}

hipError_t hipMemcpyDtoH(void* destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, nullptr,
                copy_wait::finished);
  });
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, nullptr,
                copy_wait::unless_inside_device);
  });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t destination, async_host_source source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyHostToDevice, stream,
                copy_wait::none);
  });
}

hipError_t hipMemcpyDtoHAsync(void* destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, stream,
                copy_wait::none);
  });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, stream,
                copy_wait::none);
  });
}

hipError_t hipMemcpyPeer(void* destination, int destination_device, const void* source,
                         int source_device, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy_peer(machine, {destination, source, bytes}, destination_device, source_device,
                     nullptr, copy_wait::ordered);
  });
}

hipError_t hipMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                              int source_device, size_t bytes, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_peer(machine, {destination, source, bytes}, destination_device, source_device,
                     stream, copy_wait::none);
  });
}

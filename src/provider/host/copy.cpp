// SPDX-License-Identifier: MIT
#include <cstring>
#include <utility>

#include "call.hpp"
#include "capture.hpp"
#include "enum_value.hpp"
#include "pointers.hpp"
#include "thread_state.hpp"

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

endpoint endpoint_at(runtime& machine, const void* pointer, int device, bool staged) {
  return {address_of(pointer), machine.addresses().classify(address_of(pointer)), device, staged};
}

// Pinned host memory is at home on both sides: it has a device address, which is the same.
bool is_host(const endpoint& side) noexcept { return side.where != memory_class::device; }
bool is_device(const endpoint& side) noexcept { return side.where != memory_class::pageable; }

bool matches(int kind, const endpoint& to, const endpoint& from) {
  switch (kind) {
    case hipMemcpyHostToHost:
      return is_host(from) && is_host(to);
    case hipMemcpyHostToDevice:
      return is_host(from) && is_device(to);
    case hipMemcpyDeviceToHost:
      return is_device(from) && is_host(to);
    case hipMemcpyDeviceToDevice:
      return is_device(from) && is_device(to);
    case hipMemcpyDefault:
      return true;
    default:
      throw failure{hipErrorInvalidMemcpyDirection};
  }
}

hipError_t submit_copy(runtime& machine, stream_queue& queue, copy_operation work, completion how) {
  const std::size_t bytes = work.bytes;
  require(allowed(machine, work.destination, right::write, bytes));
  require(allowed(machine, work.source, right::read, bytes));
  if (how == completion::synchronous) machine.captures().refuse_waiting_copy();
  // A graph reads and writes pageable memory when it runs.
  if (machine.captures().is_capturing(queue)) return machine.submit(queue, std::move(work), how);
  if (work.destination.where == memory_class::pageable) {
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
  return machine.submit(queue, std::move(work), how);
}

hipError_t copy(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                completion how) {
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  const endpoint to = endpoint_at(machine, what.destination, queue->device(), true);
  const endpoint from = endpoint_at(machine, what.source, queue->device(), true);
  require(matches(kind, to, from));
  return submit_copy(machine, *queue, {to, from, what.bytes, nullptr}, how);
}

hipError_t copy_peer(runtime& machine, const copy_arguments& what, int destination_device,
                     int source_device, hipStream_t stream, completion how) {
  require(machine.has_device(destination_device), hipErrorInvalidDevice);
  require(machine.has_device(source_device), hipErrorInvalidDevice);
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  const endpoint to = endpoint_at(machine, what.destination, destination_device, false);
  const endpoint from = endpoint_at(machine, what.source, source_device, false);
  require(is_device(to) && is_device(from));
  return submit_copy(machine, *queue, {to, from, what.bytes, nullptr}, how);
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
                completion::synchronous);
  });
}

hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, value_of(kind), stream,
                completion::asynchronous);
  });
}

hipError_t hipMemcpyWithStream(void* destination, const void* source, size_t bytes,
                               hipMemcpyKind kind, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const bool recorded = machine.captures().is_capturing(*machine.stream(stream));
    return copy(machine, {destination, source, bytes}, value_of(kind), stream,
                recorded ? completion::asynchronous : completion::synchronous);
  });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t destination, host_source source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyHostToDevice, nullptr,
                completion::synchronous);
  });
}

hipError_t hipMemcpyDtoH(void* destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, nullptr,
                completion::synchronous);
  });
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, nullptr,
                completion::synchronous);
  });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t destination, async_host_source source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyHostToDevice, stream,
                completion::asynchronous);
  });
}

hipError_t hipMemcpyDtoHAsync(void* destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, stream,
                completion::asynchronous);
  });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, stream,
                completion::asynchronous);
  });
}

hipError_t hipMemcpyPeer(void* destination, int destination_device, const void* source,
                         int source_device, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy_peer(machine, {destination, source, bytes}, destination_device, source_device,
                     nullptr, completion::synchronous);
  });
}

hipError_t hipMemcpyPeerAsync(void* destination, int destination_device, const void* source,
                              int source_device, size_t bytes, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_peer(machine, {destination, source, bytes}, destination_device, source_device,
                     stream, completion::asynchronous);
  });
}

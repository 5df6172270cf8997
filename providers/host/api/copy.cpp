// SPDX-License-Identifier: MIT
#include "api/copy.hpp"

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

// hipMemcpyAsync has read pageable memory when it returns. Up to this many bytes a private copy is
// cheaper than a wait.
constexpr std::size_t snapshot_limit = std::size_t{64} << 10U;

endpoint endpoint_at(runtime& machine, const void* pointer, int device, bool staged) {
  return {address_of(pointer), machine.addresses().classify(address_of(pointer)), device, staged};
}

// Pinned host memory counts as both: its device address is the same.
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
  require(is_copy_kind(kind) || machine.rules().bad_kind == unknown_kind::taken,
          hipErrorInvalidMemcpyDirection);
  return matches(kind, to, from) ||
         (has_hip_memory && machine.rules().copy_kind == kind_check::of_host_memory);
}

// Managed memory is not the host's: a copy of it takes the way of a device's.
bool is_of_host(runtime& machine, const endpoint& side) {
  if (side.where == memory_class::pageable) return true;
  const std::optional<tracked_range> found = machine.addresses().find(side.start);
  return found && is_pinned(*found);
}

struct ownership {
  int device = hipInvalidDeviceId;  ///< of pinned and managed memory the one it was made on
  bool is_mapped = false;
  bool is_host = false;  ///< pageable, pinned or managed
};

ownership ownership_of(const runtime& machine, const endpoint& side) {
  if (side.where == memory_class::pageable) return {hipInvalidDeviceId, false, true};
  const std::optional<tracked_range> found = machine.addresses().find(side.start);
  if (!found || !machine.has_device(found->device)) return {};
  return {found->device, found->kind == memory_kind::mapping,
          !(side.where == memory_class::device)};
}

bool is_left_running(const runtime& machine, const copy_request& work) {
  if (machine.addresses().is_synchronous(work.source.start) ||
      machine.addresses().is_synchronous(work.destination.start))
    return false;
  const ownership from = ownership_of(machine, work.source);
  const ownership to = ownership_of(machine, work.destination);
  return !from.is_host && !to.is_host && from.device == to.device &&
         from.device != hipInvalidDeviceId;
}

/// The device that carries out a copy of its own memory in a stream of another device, `asked`;
/// hipInvalidDeviceId if the stream's device does, or if the memory is of several devices.
int foreign_owner(const runtime& machine, const copy_request& work, int asked) {
  if (machine.rules().foreign_copies == foreign_copy::in_stream) return hipInvalidDeviceId;
  const ownership from = ownership_of(machine, work.source);
  const ownership to = ownership_of(machine, work.destination);
  if (from.is_host && to.is_host) return hipInvalidDeviceId;
  const ownership& named = from.is_host ? to : from;
  const ownership& other = from.is_host ? from : to;
  if (!other.is_host && other.device != named.device) return hipInvalidDeviceId;
  const bool stays = named.is_mapped && other.device != named.device &&
                     machine.rules().host_copies == host_copy::by_stream;
  return named.device == asked || stays ? hipInvalidDeviceId : named.device;
}

bool is_of_two_devices(const ownership& from, const ownership& to) noexcept {
  return !from.is_host && !to.is_host && from.device != hipInvalidDeviceId &&
         to.device != hipInvalidDeviceId && from.device != to.device;
}

void end_where_links_are_missing(runtime& machine, const copy_request& work, int asked) {
  const copy_links needed = machine.rules().copied_over;
  if (needed == copy_links::none || !machine.peers().any_linked()) return;
  const ownership from = ownership_of(machine, work.source);
  const ownership to = ownership_of(machine, work.destination);
  if (!is_of_two_devices(from, to)) return;
  const bool is_of_either = asked == from.device || asked == to.device;
  const bool has_links_of_owners = machine.peers().reaches(from.device, to.device);
  const bool has_links_of_stream =
      machine.peers().reaches(asked, from.device) && machine.peers().reaches(asked, to.device);
  const bool is_possible = needed == copy_links::of_owners ? is_of_either || has_links_of_owners
                           : needed == copy_links::of_stream
                               ? has_links_of_stream
                               : has_links_of_owners && has_links_of_stream;
  if (!is_possible)
    throw crash{
        "copies between two devices that, or of which one and the stream's device, have no "
        "link, while other devices are linked",
        "AMD's runtime 5.7.1, 6.4.3 and 7.2.4 on a stand-in for ROCr"};
}

// Sets the devices that need rights to the two sides, if that is not the stream's. ROCm copies
// memory that is not mapped with the rights of its owner. From 7.0 on, if the stream's device has
// no link to one side, it copies mapped memory, too, through the host.
void choose_engine(runtime& machine, copy_request& work, int asked) {
  const copy_engine rule = machine.rules().engine;
  const ownership from = ownership_of(machine, work.source);
  const ownership to = ownership_of(machine, work.destination);
  const auto is_fixed = [](const ownership& side) {
    return !side.is_mapped && !side.is_host && side.device != hipInvalidDeviceId;
  };
  const bool is_of_two = is_of_two_devices(from, to);
  if (is_of_two && machine.rules().copied_devices != peer_devices::compared) {
    const bool is_staged =
        rule == copy_engine::of_stream_opening &&
        !(machine.peers().reaches(asked, from.device) && machine.peers().reaches(asked, to.device));
    if (is_staged || is_fixed(from)) work.source.device = from.device;
    if (is_staged || is_fixed(to)) work.destination.device = to.device;
    if (is_staged) return;
  }
  if (rule == copy_engine::of_stream || (!from.is_mapped && !to.is_mapped)) return;
  if (rule == copy_engine::of_stream_opening) {
    if (!is_of_two) return;
    const auto open = [&](const endpoint& side, const ownership& of) {
      if (of.is_mapped)
        machine.addresses().open_to(side.start, machine.peers().linked_to(of.device));
    };
    open(work.source, from);
    open(work.destination, to);
    return;
  }
  int engine = from.device != asked ? from.device : to.device;
  if (from.device == hipInvalidDeviceId || is_fixed(to)) engine = to.device;
  if (to.device == hipInvalidDeviceId || is_fixed(from)) engine = from.device;
  if (engine == hipInvalidDeviceId) return;
  if (!is_fixed(from)) work.source.device = engine;
  if (!is_fixed(to)) work.destination.device = engine;
}

hipError_t submit_copy(runtime& machine, stream_queue& queue, copy_request work, copy_wait until) {
  const std::size_t bytes = work.bytes;
  const auto may = [&](const endpoint& side, right needed) {
    return allowed(machine.access(), side, needed, bytes, work.pieces);
  };
  // Checks memory of HIP's first, because that ends: a wrong number of rows may all be in pageable
  // memory.
  require(work.destination.where == memory_class::pageable
              ? may(work.source, right::read) && may(work.destination, right::write)
              : may(work.destination, right::write) && may(work.source, right::read));
  if (until != copy_wait::none) machine.captures().refuse_waiting_copy();
  const bool waits = until == copy_wait::finished ||
                     (until == copy_wait::unless_inside_device && !is_left_running(machine, work));
  completion how = waits ? completion::synchronous : completion::asynchronous;
  // A graph reads and writes pageable memory when it runs.
  if (machine.captures().is_capturing(queue))
    return machine.submit(queue, copy_operation{std::move(work), machine.access()}, how);
  if (work.destination.where == memory_class::pageable ||
      (is_of_host(machine, work.destination) && is_of_host(machine, work.source))) {
    how = completion::synchronous;
  } else if (work.source.where == memory_class::pageable && how == completion::asynchronous) {
    // The product does not overflow: it is at most the size of the target, which is memory of
    // HIP's.
    const std::size_t all = bytes * work.pieces.rows * work.pieces.slices;
    if (all <= snapshot_limit) {
      work.snapshot = std::make_unique_for_overwrite<std::byte[]>(all);
      const pitches packed{bytes, bytes * work.pieces.rows};
      const endpoint kept{address_of(work.snapshot.get()), work.source.where, work.source.device,
                          work.source.staged, packed};
      for_each_piece(work.pieces, [&](std::size_t row, std::size_t slice) {
        std::memcpy(pointer_to(kept.at_piece(row, slice).start),
                    pointer_to(work.source.at_piece(row, slice).start), bytes);
      });
      work.source = kept;
    } else {
      how = completion::synchronous;
    }
  }
  return machine.submit(queue, copy_operation{std::move(work), machine.access()}, how);
}

void put_behind(runtime& machine, stream_queue& later, stream_queue& earlier) {
  const stream_set& streams = machine.device(earlier.device()).streams;
  const std::shared_ptr<const mark> end = earlier.put_mark(streams.ahead_of(earlier));
  later.follow(*end);
  if (end->where.reached()) return;
  static_cast<void>(machine.submit(later, wait_operation{end->where}, completion::asynchronous));
}

hipError_t submit_where_carried_out(runtime& machine, stream_queue& asked, copy_request work,
                                    copy_wait until) {
  const bool is_recorded = machine.captures().is_capturing(asked);
  const int owner = is_recorded ? hipInvalidDeviceId : foreign_owner(machine, work, asked.device());
  if (!is_recorded) end_where_links_are_missing(machine, work, asked.device());
  if (owner == hipInvalidDeviceId) {
    choose_engine(machine, work, asked.device());
    return submit_copy(machine, asked, std::move(work), until);
  }
  work.source.device = owner;
  work.destination.device = owner;
  const std::shared_ptr<stream_queue> carrier = machine.device(owner).streams.null();
  put_behind(machine, *carrier, asked);
  const hipError_t result = submit_copy(machine, *carrier, std::move(work), until);
  if (until != copy_wait::ordered) put_behind(machine, asked, *carrier);
  return result;
}

hipError_t copy_peer(runtime& machine, const copy_arguments& what, int destination_device,
                     int source_device, hipStream_t stream, copy_wait until) {
  require(machine.has_device(destination_device), hipErrorInvalidDevice);
  require(machine.has_device(source_device), hipErrorInvalidDevice);
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  const bool compares = machine.rules().copied_devices == peer_devices::compared;
  const int user = queue->device();
  const endpoint to =
      endpoint_at(machine, what.destination, compares ? destination_device : user, !compares);
  const endpoint from =
      endpoint_at(machine, what.source, compares ? source_device : user, !compares);
  require(compares ? is_device(to) && is_device(from) : is_device(to) || is_device(from));
  if (!compares && (until == copy_wait::none || destination_device == source_device))
    return submit_where_carried_out(machine, *queue, {to, from, what.bytes}, until);
  std::vector<std::shared_ptr<stream_queue>> others;
  for (const int id : {destination_device, source_device}) {
    const bool is_other = until == copy_wait::ordered && id != queue->device();
    if (is_other) others.push_back(machine.device(id).streams.null());
  }
  for (const auto& each : others) put_behind(machine, *queue, *each);
  copy_request work{to, from, what.bytes};
  end_where_links_are_missing(machine, work, user);
  if (!compares) choose_engine(machine, work, user);
  const hipError_t result = submit_copy(machine, *queue, std::move(work), until);
  for (const auto& each : others) put_behind(machine, *each, *queue);
  return result;
}

// The release of the header decides whether the host source of hipMemcpyHtoD is const.
template <class Result, class Destination, class Source, class... Rest>
Source source_parameter(Result (*)(Destination, Source, Rest...));
using host_source = decltype(source_parameter(&hipMemcpyHtoD));
using async_host_source = decltype(source_parameter(&hipMemcpyHtoDAsync));

}  // namespace

bool is_copy_kind(int kind) noexcept {
  return (kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault) ||
         kind == hip_compat::device_to_device_no_cu;
}

hipError_t copy_memory(runtime& machine, const copy_arguments& what, int kind, hipStream_t stream,
                       copy_wait until) {
  const std::shared_ptr<stream_queue> queue = machine.stream(stream);
  if (what.bytes == 0 || what.pieces.rows == 0 || what.pieces.slices == 0) return hipSuccess;
  require(what.destination != nullptr && what.source != nullptr);
  endpoint to = endpoint_at(machine, what.destination, queue->device(), true);
  endpoint from = endpoint_at(machine, what.source, queue->device(), true);
  // Copies of rows check the kind, others the addresses on some releases.
  const bool is_of_rows = what.destination_apart.row != 0;
  require(is_of_rows ? matches(kind, to, from) : is_taken(machine, kind, to, from));
  to.apart = what.destination_apart;
  from.apart = what.source_apart;
  return submit_where_carried_out(machine, *queue, {to, from, what.bytes, what.pieces}, until);
}

}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemcpy(void* destination, const void* source, size_t bytes, hipMemcpyKind kind) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, value_of(kind), nullptr,
                       copy_wait::unless_inside_device);
  });
}

hipError_t hipMemcpyAsync(void* destination, const void* source, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(
        is_copy_kind(value_of(kind)) || machine.rules().bad_kind != unknown_kind::refused_in_stream,
        hipErrorInvalidMemcpyDirection);
    return copy_memory(machine, {destination, source, bytes}, value_of(kind), stream,
                       copy_wait::none);
  });
}

hipError_t hipMemcpyWithStream(void* destination, const void* source, size_t bytes,
                               hipMemcpyKind kind, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    const bool recorded = machine.captures().is_capturing(*machine.stream(stream));
    return copy_memory(machine, {destination, source, bytes}, value_of(kind), stream,
                       recorded ? copy_wait::none : copy_wait::finished);
  });
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t destination, host_source source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyHostToDevice, nullptr,
                       copy_wait::finished);
  });
}

hipError_t hipMemcpyDtoH(void* destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, nullptr,
                       copy_wait::finished);
  });
}

hipError_t hipMemcpyDtoD(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, nullptr,
                       copy_wait::unless_inside_device);
  });
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t destination, async_host_source source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyHostToDevice, stream,
                       copy_wait::none);
  });
}

hipError_t hipMemcpyDtoHAsync(void* destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyDeviceToHost, stream,
                       copy_wait::none);
  });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t destination, hipDeviceptr_t source, size_t bytes,
                              hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    return copy_memory(machine, {destination, source, bytes}, hipMemcpyDeviceToDevice, stream,
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

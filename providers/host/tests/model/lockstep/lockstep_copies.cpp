// SPDX-License-Identifier: MIT
// Copies, fills, and the memory that they need besides mappings, in lockstep.
#include <hipvmm/provider/host_control.h>

#include "lockstep.hpp"
#include "provider_calls.hpp"

namespace hipvmm::test::model {

void lockstep::allocate(const operation& each) {
  use_device(each.device);
  void* given = nullptr;
  if (!judge(model_.allocate(each.has_result, each.bytes, each.device),
             hipMalloc(each.has_result ? &given : nullptr, each.bytes)))
    return;
  const address start = address_of(given);
  if (each.bytes == 0) {
    if (given != nullptr) differ("an address for no bytes");
    return;
  }
  if (model_.overlaps_anything(start, each.bytes)) differ("memory that is taken");
  model_.add_area(start, each.bytes, area_kind::device, each.device);
  slots_.allocations[each.slot] = {start, each.bytes};
}

void lockstep::free_allocation(const operation& each) {
  const address at = slots_.resolve(each.at);
  if (!judge(model_.free_allocation(at), hipFree(pointer_to(at)))) return;
  model_.allocation_freed(at);
  if (at - slots_.pinned.start < slots_.pinned.bytes) allocate_pinned();
  if (use_ != provider_use::runtime) return;
  // Anything may be there soon.
  for (slot_values::range& each_slot : slots_.allocations)
    if (at - each_slot.start < each_slot.bytes) each_slot = {};
}

void lockstep::peer_access(const operation& each) {
  use_device(each.device);
  if (each.what == kind::enable_peer) {
    const auto flags = static_cast<unsigned>(each.flags);
    if (judge(model_.enable_peer(each.device, each.peer, flags),
              hipDeviceEnablePeerAccess(each.peer, flags)))
      model_.peer_enabled(each.device, each.peer);
  } else if (judge(model_.disable_peer(each.device, each.peer),
                   hipDeviceDisablePeerAccess(each.peer))) {
    model_.peer_disabled(each.device, each.peer);
  }
}

void lockstep::copy(const operation& each) {
  const address to = slots_.resolve(each.at);
  const address from = slots_.resolve(each.from);
  void* const target = pointer_to(to);
  void* const source = pointer_to(from);
  const hipStream_t stream = streams_[static_cast<std::size_t>(each.device)];
  const auto direction = not_an_enumerator<hipMemcpyKind>(each.type);
  use_device(each.device);
  const bool is_async = each.by != variant::at_once &&
                        (each.by == variant::on_stream || each.type < hipMemcpyHostToDevice ||
                         each.type > hipMemcpyDeviceToDevice);
  const verdict expected = model_.copy(to, from, each.bytes, each.type, each.device, is_async);
  hipError_t given = hipSuccess;
  if (each.by == variant::by_direction && each.type == hipMemcpyHostToDevice) {
    given = hipMemcpyHtoD(target, source, each.bytes);
  } else if (each.by == variant::by_direction && each.type == hipMemcpyDeviceToHost) {
    given = hipMemcpyDtoH(target, source, each.bytes);
  } else if (each.by == variant::by_direction && each.type == hipMemcpyDeviceToDevice) {
    given = hipMemcpyDtoDAsync(target, source, each.bytes, stream);
  } else if (each.by == variant::at_once) {
    given = hipMemcpy(target, source, each.bytes, direction);
  } else {
    given = hipMemcpyAsync(target, source, each.bytes, direction, stream);
  }
  if (!judge(expected, given)) return;
  // A copy inside a device returns before it has run, in the null stream if none is named.
  const hipStream_t used = each.by == variant::at_once ? nullptr : stream;
  if (hipStreamSynchronize(used) != hipSuccess) differ("the copy failed when its turn came");
  model_.copied(to, from, each.bytes);
}

void lockstep::peer_copy(const operation& each) {
  const address to = slots_.resolve(each.at);
  const address from = slots_.resolve(each.from);
  const verdict expected = model_.peer_copy(to, each.device, from, each.peer, each.bytes);
  const bool is_async = each.by != variant::at_once;
  // The device that may do the work.
  const int user = exists(each.device) ? each.device : 0;
  use_device(user);
  const hipStream_t stream = is_async ? streams_[static_cast<std::size_t>(user)] : nullptr;
  const hipError_t given =
      !is_async
          ? hipMemcpyPeer(pointer_to(to), each.device, pointer_to(from), each.peer, each.bytes)
          : hipMemcpyPeerAsync(pointer_to(to), each.device, pointer_to(from), each.peer, each.bytes,
                               stream);
  if (!judge(expected, given)) return;
  if (hipStreamSynchronize(stream) != hipSuccess) differ("the copy failed when its turn came");
  model_.copied(to, from, each.bytes);
}

void lockstep::fill(const operation& each) {
  const address to = slots_.resolve(each.at);
  const std::size_t width = static_cast<std::size_t>(each.type);
  void* const target = pointer_to(to);
  const hipStream_t stream = streams_[static_cast<std::size_t>(each.device)];
  const auto value = static_cast<int>(each.value);
  const bool is_async = each.by != variant::at_once;
  use_device(each.device);
  const verdict expected = model_.fill(to, each.bytes, width, each.device);
  hipError_t given = hipSuccess;
  if (width == 1) {
    given = is_async ? hipMemsetAsync(target, value, each.bytes, stream)
                     : hipMemset(target, value, each.bytes);
  } else if (width == 2) {
    const auto half = static_cast<unsigned short>(each.value);
    given = is_async ? hipMemsetD16Async(target, half, each.bytes, stream)
                     : hipMemsetD16(target, half, each.bytes);
  } else {
    given = is_async ? hipMemsetD32Async(target, value, each.bytes, stream)
                     : hipMemsetD32(target, value, each.bytes);
  }
  if (!judge(expected, given)) return;
  // Calls without a stream may return before the work, which the null stream then has.
  if (hipStreamSynchronize(is_async ? stream : nullptr) != hipSuccess)
    differ("the fill failed when its turn came");
  model_.filled(to, each.bytes, width, each.value);
}

void lockstep::fill_behind_change(const operation& each) {
  const address to = slots_.resolve(each.at);
  const hipStream_t stream = streams_[static_cast<std::size_t>(each.device)];
  // Copies return before they have run in the null stream, for which some releases' unmap waits.
  for (int device = 0; device < static_cast<int>(streams_.size()); ++device) {
    use_device(device);
    must(hipStreamSynchronize(nullptr), "hipStreamSynchronize");
  }
  use_device(each.device);
  const verdict expected = model_.fill(to, each.bytes, 1, each.device);
  const unordered_on_purpose changes_memory_of_queued_work;
  held_streams held;
  if (!judge(expected,
             hipMemsetAsync(pointer_to(to), static_cast<int>(each.value), each.bytes, stream)))
    return;
  const bool is_mapped = model_.mapping_at(to) != nullptr && each.bytes != 0;
  if (is_mapped && each.then != change::nothing) {
    const auto [start, first] = *std::prev(model_.mappings().upper_bound(to));
    const access_entry less{
        hipMemLocationTypeDevice, each.device,
        each.then == change::read_only ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtNone};
    if (each.then == change::unmapped) {
      unmap(start, first.bytes);
    } else {
      set_access(start, first.bytes, &less, 1);
    }
  }
  const bool is_open = model_.fill(to, each.bytes, 1, each.device).takes_effect();
  held.release();
  const hipError_t outcome = hipStreamSynchronize(stream);
  const hipError_t due = is_open ? hipSuccess : hipErrorIllegalAddress;
  if (outcome != due)
    differ(std::string{"the fill ended as "} + hipGetErrorName(outcome) + ", the model says " +
           hipGetErrorName(due));
  static_cast<void>(hipGetLastError());
  if (is_open) model_.filled(to, each.bytes, 1, each.value);
}

}  // namespace hipvmm::test::model

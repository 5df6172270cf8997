// SPDX-License-Identifier: MIT
#include <bit>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "api/memory.hpp"
#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/managed_pages.hpp"
#include "memory/tracked_range.hpp"
#include "providers/memory_advice.hpp"
#include "stream/operations.hpp"

namespace hipvmm::host_provider {
namespace {

tracked_range range_around(const runtime& machine, const void* pointer, std::size_t bytes) {
  const address start = address_of(pointer);
  std::optional<tracked_range> found = machine.addresses().find(start);
  require(found.has_value());
  require(bytes <= found->start + found->bytes - start);
  return *std::move(found);
}

tracked_range owner_of(const runtime& machine, const void* pointer, std::size_t bytes) {
  tracked_range found = range_around(machine, pointer, bytes);
  require(found.pages != nullptr);
  return found;
}

// Pageable memory that devices reach does not move.
bool is_reached(const runtime& machine, const void* pointer) {
  return machine.configuration().pageable_access &&
         machine.addresses().classify(address_of(pointer)) == memory_class::pageable;
}

void require_place(const runtime& machine, int place) {
  require(place == hipCpuDeviceId || machine.has_device(place), hipErrorInvalidDevice);
}

void require_concurrent_access(const runtime& machine) {
  require(machine.configuration().concurrent_managed_access, hipErrorInvalidDevice);
}

bool names_a_place(int advice) noexcept {
  return advice != hipMemAdviseSetReadMostly && advice != hipMemAdviseUnsetReadMostly;
}

// If devices and the host may not use memory at the same time, this advice is only about the host.
bool is_about_access(int advice) noexcept {
  return advice == hipMemAdviseSetPreferredLocation || advice == hipMemAdviseSetAccessedBy ||
         advice == hipMemAdviseUnsetAccessedBy;
}

std::function<void(page_state&)> change_for(int advice, int place) {
  switch (advice) {
    case hipMemAdviseSetReadMostly:
      return [](page_state& page) { page.read_mostly = true; };
    case hipMemAdviseUnsetReadMostly:
      return [](page_state& page) {
        page.read_mostly = false;
        page.drop_copies();
      };
    case hipMemAdviseSetPreferredLocation:
      return [place](page_state& page) { page.preferred = place; };
    case hipMemAdviseUnsetPreferredLocation:
      return [](page_state& page) { page.preferred = hipInvalidDeviceId; };
    case hipMemAdviseSetAccessedBy:
      return [place](page_state& page) { page.accessed_by.insert(place); };
    case hipMemAdviseUnsetAccessedBy:
      return [place](page_state& page) { page.accessed_by.erase(place); };
    case hipMemAdviseSetCoarseGrain:
      return [](page_state& page) { page.coarse_grained = true; };
    case hipMemAdviseUnsetCoarseGrain:
      return [](page_state& page) { page.coarse_grained = false; };
    default:
      throw failure{hipErrorInvalidValue};
  }
}

hipError_t advise(runtime& machine, const void* pointer, std::size_t bytes, int wanted, int place) {
  const std::function<void(page_state&)> change = change_for(wanted, place);
  if (names_a_place(wanted)) require_place(machine, place);
  if (is_about_access(wanted) && place != hipCpuDeviceId) require_concurrent_access(machine);
  if (is_reached(machine, pointer)) return hipSuccess;
  owner_of(machine, pointer, bytes).pages->change(address_of(pointer), bytes, change);
  return hipSuccess;
}

struct range_summary {
  page_state common;
  bool some_fine = false;
  bool some_coarse = false;

  void add(const page_state& page) noexcept {
    if (!some_fine && !some_coarse) common = page;
    (page.coarse_grained ? some_coarse : some_fine) = true;
    common.read_mostly = common.read_mostly && page.read_mostly;
    if (common.preferred != page.preferred) common.preferred = hipInvalidDeviceId;
    if (common.last_prefetch != page.last_prefetch) common.last_prefetch = hipInvalidDeviceId;
    common.accessed_by.devices &= page.accessed_by.devices;
    common.accessed_by.host = common.accessed_by.host && page.accessed_by.host;
  }

  [[nodiscard]] int coherency() const noexcept {
    if (some_fine && some_coarse) return hipMemRangeCoherencyModeIndeterminate;
    return some_coarse ? hipMemRangeCoherencyModeCoarseGrain : hipMemRangeCoherencyModeFineGrain;
  }
};

int coherency_of(const tracked_range& memory) noexcept {
  const bool is_fine = is_pinned(memory) && (memory.flags & hipHostMallocNonCoherent) == 0;
  return is_fine ? hipMemRangeCoherencyModeFineGrain : hipMemRangeCoherencyModeCoarseGrain;
}

range_summary summarize(const managed_pages& pages, const void* pointer, std::size_t bytes) {
  range_summary summary;
  pages.visit(address_of(pointer), bytes,
              [&summary](const page_state& page) { summary.add(page); });
  return summary;
}

// Exactly `count` ints: devices in order, then the host, then hipInvalidDeviceId.
std::vector<int> listed(const place_set& places, std::size_t count) {
  std::vector<int> list;
  for (device_set left = places.devices; left != 0; left &= left - 1) {
    list.push_back(std::countr_zero(left));
  }
  if (places.host) list.push_back(hipCpuDeviceId);
  list.resize(count, hipInvalidDeviceId);
  return list;
}

void require_room(int attribute, const void* data, std::size_t bytes) {
  require(data != nullptr);
  switch (attribute) {
    case hipMemRangeAttributeAccessedBy:
      require(bytes != 0 && bytes % sizeof(int) == 0);
      return;
    case hipMemRangeAttributeReadMostly:
    case hipMemRangeAttributePreferredLocation:
    case hipMemRangeAttributeLastPrefetchLocation:
    case hipMemRangeAttributeCoherencyMode:
      require(bytes == sizeof(int));
      return;
    default:
      throw failure{hipErrorInvalidValue};
  }
}

std::vector<int> answer(int attribute, const range_summary& range, std::size_t count) {
  switch (attribute) {
    case hipMemRangeAttributeAccessedBy:
      return listed(range.common.accessed_by, count);
    case hipMemRangeAttributeReadMostly:
      return {range.common.read_mostly ? 1 : 0};
    case hipMemRangeAttributePreferredLocation:
      return {range.common.preferred};
    case hipMemRangeAttributeLastPrefetchLocation:
      return {range.common.last_prefetch};
    default:
      return {range.coherency()};
  }
}

void write(int attribute, const range_summary& range, void* data, std::size_t bytes) {
  const std::vector<int> values = answer(attribute, range, bytes / sizeof(int));
  std::memcpy(data, values.data(), bytes);
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost);
    machine.captures().refuse_managed();
    *pointer = pointer_to(machine.addresses().allocate(memory_kind::managed_allocation,
                                                       current_device(), bytes, flags));
    return hipSuccess;
  });
}

hipError_t hipMemPrefetchAsync(const void* pointer, size_t bytes, int device, hipStream_t stream) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    require_place(machine, device);
    // Checks the place and the stream.
    require_concurrent_access(machine);
    const std::shared_ptr<stream_queue> queue =
        stream_of_memory(machine, stream, machine.rules().bad_managed_stream);
    if (is_reached(machine, pointer)) return hipSuccess;
    const address start = address_of(pointer);
    require(machine.addresses().classify(start) != memory_class::pageable, hipErrorNotSupported);
    const tracked_range owner = owner_of(machine, pointer, bytes);
    machine.captures().refuse_unrecorded(*queue);
    // The attribute reports the last prefetch that was requested, begun or not.
    owner.pages->change(start, bytes, [device](page_state& page) { page.last_prefetch = device; });
    // Registered memory is pinned, and does not move.
    if (owner.kind == memory_kind::registration) return hipSuccess;
    return machine.submit(*queue, prefetch_operation{{owner.pages, start, bytes, device}},
                          completion::asynchronous);
  });
}

hipError_t hipMemAdvise(const void* pointer, size_t bytes, hipMemoryAdvise advice, int device) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    return advise(machine, pointer, bytes, value_of(advice), device);
  });
}

hipError_t hipMemAdvise_v2(const void* pointer, size_t bytes, hipMemoryAdvise advice,
                           hipMemLocation location) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    return advise(machine, pointer, bytes, value_of(advice),
                  hipvmm::provider::ordinal_of(location));
  });
}

hipError_t hipMemRangeGetAttribute(void* data, size_t data_bytes, hipMemRangeAttribute attribute,
                                   const void* pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    const int wanted = value_of(attribute);
    require_room(wanted, data, data_bytes);
    const tracked_range owner = range_around(machine, pointer, bytes);
    if (owner.pages == nullptr) {
      require(wanted == hipMemRangeAttributeCoherencyMode);
      *static_cast<int*>(data) = coherency_of(owner);
      return machine.rules().coherency == coherency_range::any_allocation ? hipSuccess
                                                                          : hipErrorInvalidValue;
    }
    write(wanted, summarize(*owner.pages, pointer, bytes), data, data_bytes);
    return hipSuccess;
  });
}

hipError_t hipMemRangeGetAttributes(void** data, size_t* data_bytes,
                                    hipMemRangeAttribute* attributes, size_t count,
                                    const void* pointer, size_t bytes) {
  return call(__func__, [&](runtime& machine) {
    require(data != nullptr && data_bytes != nullptr && attributes != nullptr && count != 0);
    require(pointer != nullptr && bytes != 0);
    for (size_t i = 0; i < count; ++i) {
      require_room(value_of(attributes[i]), data[i], data_bytes[i]);
    }
    const tracked_range owner = owner_of(machine, pointer, bytes);
    const range_summary range = summarize(*owner.pages, pointer, bytes);
    for (size_t i = 0; i < count; ++i) {
      write(value_of(attributes[i]), range, data[i], data_bytes[i]);
    }
    return hipSuccess;
  });
}

// Attachment matters only to devices that cannot use managed memory while the host does, and these
// can. As on AMD, the call only checks its arguments.
hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* pointer, size_t bytes,
                                   unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost ||
            flags == hipMemAttachSingle);
    require(flags != hipMemAttachSingle || !hipvmm::hip_compat::is_legacy_stream(stream));
    const std::shared_ptr<stream_queue> queue = machine.stream(stream);
    if (is_reached(machine, pointer)) {
      require(bytes != 0);
    } else {
      const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
      require(found && found->kind == memory_kind::managed_allocation);
      require(bytes == 0 || bytes == found->bytes);
    }
    machine.captures().refuse_unrecorded(*queue);
    return hipSuccess;
  });
}

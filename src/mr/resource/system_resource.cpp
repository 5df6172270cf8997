// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/system_resource.hpp>

#include <unistd.h>

#include <algorithm>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include "core/check.hpp"
#include "mr/resource/host_memory.hpp"

namespace hipvmm::mr {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// Advice applies to whole pages, so no other memory may share one.
struct whole_pages {
  std::size_t bytes;
  std::size_t alignment;
  whole_pages(std::size_t least_bytes, std::size_t least_alignment)
      : bytes{align_up(least_bytes, page_bytes())},
        alignment{std::max(least_alignment, page_bytes())} {}
};

void release(void* pointer, const whole_pages& given) noexcept {
  // The pages may serve others in this process.
  detail::report_exceptions(
      [&] { advise(pointer, given.bytes, range_advice::unset_preferred_location); });
  detail::delete_aligned(pointer, given.alignment);
}

}  // namespace

system_resource::system_resource(device_ref device) {
  if (!device.supports_pageable_access())
    throw unsupported{
        "system_resource: device " + std::to_string(device.ordinal()) +
        " reaches no ordinary memory of the host (hipDeviceAttributePageableMemoryAccess is 0). On "
        "AMD set HSA_XNACK=1 if the GPU supports it; else use managed_resource or "
        "pinned_host_resource"};
}

sam_headroom_resource::sam_headroom_resource(device_ref device, std::size_t headroom)
    : upstream_{device}, device_{device}, headroom_{headroom} {}

void sam_headroom_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                          std::size_t alignment) noexcept {
  detail::free_behind(stream, pointer, bytes, [=] {
    release(pointer, whole_pages{bytes, alignment});
  });
}

void* sam_headroom_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  detail::require_possible(bytes, "operator new");
  const whole_pages wanted{bytes, alignment};
  void* const pointer = upstream_.allocate_sync(wanted.bytes, wanted.alignment);
  try {
    const std::size_t free = device_.free_memory();
    const std::size_t fitting = free > headroom_ ? free - headroom_ : 0;
    const std::size_t near = std::min(wanted.bytes, fitting / page_bytes() * page_bytes());
    constexpr auto prefer = location_advice::set_preferred_location;
    if (near != 0) advise(pointer, near, prefer, device_);
    if (near != wanted.bytes)
      advise(static_cast<char*>(pointer) + near, wanted.bytes - near, prefer,
             memory_location::host());
  } catch (...) {
    release(pointer, wanted);
    throw;
  }
  return pointer;
}

void sam_headroom_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                               std::size_t alignment) noexcept {
  detail::free_behind(detail::wait_before_delete, pointer, [=] {
    release(pointer, whole_pages{bytes, alignment});
  });
}

bool sam_headroom_resource::do_is_equal(const memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const sam_headroom_resource*>(&other);
  return same != nullptr && same->device_ == device_ && same->headroom_ == headroom_;
}

}  // namespace hipvmm::mr

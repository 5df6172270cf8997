// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/hip_resource.hpp>

#include <utility>

#include <hipvmm/runtime/device_allocation.hpp>

#include "core/check.hpp"
#include "mr/resource/misaligned.hpp"
#include "mr/stream_wait.hpp"
#include "region/retirement.hpp"

namespace hipvmm::mr {
namespace {

template <typename Wait>
void free_after(device_allocation freed, Wait wait) noexcept {
  if (detail::report_exceptions(wait)) return;
  // A thread of the library waits and frees later, when no capture forbids the wait.
  detail::report_exceptions([&] {
    detail::device_list all = detail::all_devices();
    detail::release_when_unused(std::move(freed), std::move(all));
  });
}

}  // namespace

hip_resource::hip_resource(device_ref device) : device_{device} {
  require_device(device);
  keep_to_process();
}

// hipFree waits for all work of the device, but the stream may be a peer's. For a captured stream
// hipFree alone decides. Without peers the stream is not touched, because programs may have
// destroyed it, as with hipMM's cuda_memory_resource.
void hip_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                 std::size_t) noexcept {
  free_after({pointer, device_, bytes}, [=] {
    if (device_count() > 1) static_cast<void>(detail::wait_for_work(stream, bytes));
  });
}

void* hip_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  device_allocation memory = detail::acquire_with_retry([&] {
    return device_allocation{device_, bytes};
  });
  if (!detail::is_aligned(memory.get(), alignment))
    detail::throw_misaligned("hip_resource", "hipMalloc", alignment);
  return memory.release();
}

// hipFree waits for the work of the resource's own device only.
void hip_resource::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  free_after({pointer, device_, bytes},
             [this] { detail::wait_for_devices(detail::other_users_of(device_)); });
}

bool hip_resource::do_is_equal(const memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const hip_resource*>(&other);
  return same != nullptr && same->device_ == device_;
}

}  // namespace hipvmm::mr

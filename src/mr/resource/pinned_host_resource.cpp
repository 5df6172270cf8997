// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/pinned_host_resource.hpp>

#include <hip/hip_runtime_api.h>

#include "mr/resource/host_memory.hpp"
#include "mr/resource/misaligned.hpp"
#include "runtime/host/pinned_memory.hpp"

namespace hipvmm::mr {
namespace {

unsigned flags_of(const pinned_options& options) {
  unsigned flags = hipHostMallocDefault;
  if (options.portable) flags |= hipHostMallocPortable;
  if (options.mapped) flags |= hipHostMallocMapped;
  if (options.write_combined) flags |= hipHostMallocWriteCombined;
  return flags;
}

}  // namespace

void pinned_host_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                         std::size_t) noexcept {
  detail::free_behind(stream, pointer, bytes, [=] { detail::free_pinned(pointer); });
}

void* pinned_host_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  keep_to_process();
  require_device(device_ref{0});
  detail::require_possible(bytes, "hipHostMalloc");
  void* const pointer = detail::allocate_pinned(bytes, flags_of(options_));
  if (detail::is_aligned(pointer, alignment)) return pointer;
  detail::free_pinned(pointer);
  detail::throw_misaligned("pinned_host_resource", "hipHostMalloc", alignment);
}

void pinned_host_resource::do_deallocate_sync(void* pointer, std::size_t, std::size_t) noexcept {
  detail::free_behind(detail::wait_before_hip_free, pointer, [=] { detail::free_pinned(pointer); });
}

bool pinned_host_resource::do_is_equal(const memory_resource& other) const noexcept {
  return dynamic_cast<const pinned_host_resource*>(&other) != nullptr;
}

}  // namespace hipvmm::mr

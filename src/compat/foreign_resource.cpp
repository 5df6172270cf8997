// SPDX-License-Identifier: MIT
#include <hipvmm/compat/foreign_resource.hpp>

#include <string>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/resource/misaligned.hpp"
#include "mr/stream_wait.hpp"
#include "runtime/device.hpp"

namespace hipvmm::mr {
namespace {

// Not a stream of the resource's own: RMM keeps the streams that memory was deallocated in, and
// such a stream must never be destroyed.
stream_ref sync_stream() { return stream_ref::legacy_default(); }

}  // namespace

void* foreign_resource::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  std::optional<scoped_device> scope;
  if (device_) scope.emplace(*device_);
  void* const pointer = foreign_allocate(stream, bytes, alignment);
  if (pointer == nullptr)
    throw out_of_memory{std::string{name_} + ": the foreign allocator gave nullptr for " +
                        std::to_string(bytes) + " bytes; free memory, or give it more"};
  if (detail::is_aligned(pointer, alignment)) return pointer;
  do_deallocate(stream, pointer, bytes, alignment);
  detail::throw_misaligned(name_, "the foreign allocator", alignment);
}

void foreign_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                     std::size_t alignment) noexcept {
  const detail::tried_device scope{device_};
  detail::report_exceptions([&] { foreign_deallocate(stream, pointer, bytes, alignment); });
}

void* foreign_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  std::optional<scoped_device> scope;
  if (device_) scope.emplace(*device_);
  return detail::allocate_and_wait(*this, sync_stream(), bytes, alignment);
}

void foreign_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                          std::size_t alignment) noexcept {
  detail::report_exceptions([&] {
    detail::wait_for_users(pointer, detail::all_devices());
    do_deallocate(sync_stream(), pointer, bytes, alignment);
  });
}

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm_resources.hpp>

#include <string>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/check.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::hipmm::mr {
namespace {

using hipvmm::mr::memory_resource;

void require_known_alignment(std::size_t alignment) {
  if (alignment > memory_resource::default_alignment)
    throw unsupported{"device_memory_resource: an alignment of " + std::to_string(alignment) +
                      " bytes is more than the 256 that hipMM's interface knows; put an "
                      "aligned_resource_adaptor over the resource"};
}

}  // namespace

void* device_memory_resource::do_allocate(stream_ref stream, std::size_t bytes,
                                          std::size_t alignment) {
  require_known_alignment(alignment);
  return do_allocate(bytes, cuda_stream_view{stream});
}

void device_memory_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                           std::size_t) noexcept {
  hipvmm::detail::report_exceptions(
      [&] { do_deallocate(pointer, bytes, cuda_stream_view{stream}); });
}

void* device_memory_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return hipvmm::detail::allocate_and_wait(*this, cuda_stream_legacy, bytes, alignment);
}

void device_memory_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                                std::size_t) noexcept {
  hipvmm::detail::report_exceptions([&] {
    hipvmm::detail::wait_for_users(pointer, hipvmm::detail::all_devices());
    do_deallocate(pointer, bytes, cuda_stream_legacy);
  });
}

bool device_memory_resource::do_is_equal(const memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const device_memory_resource*>(&other);
  return same != nullptr && do_is_equal(*same);
}

void* forwarding_resource::do_allocate(std::size_t bytes, cuda_stream_view stream) {
  return target().allocate(stream, bytes);
}

void forwarding_resource::do_deallocate(void* pointer, std::size_t bytes, cuda_stream_view stream) {
  target().deallocate(stream, pointer, bytes);
}

bool forwarding_resource::do_is_equal(const device_memory_resource& other) const noexcept {
  return do_is_equal(static_cast<const memory_resource&>(other));
}

void* forwarding_resource::do_allocate(stream_ref stream, std::size_t bytes,
                                       std::size_t alignment) {
  return target().allocate(stream, bytes, alignment);
}

void forwarding_resource::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                                        std::size_t alignment) noexcept {
  target().deallocate(stream, pointer, bytes, alignment);
}

void* forwarding_resource::do_allocate_sync(std::size_t bytes, std::size_t alignment) {
  return target().allocate_sync(bytes, alignment);
}

void forwarding_resource::do_deallocate_sync(void* pointer, std::size_t bytes,
                                             std::size_t alignment) noexcept {
  target().deallocate_sync(pointer, bytes, alignment);
}

bool forwarding_resource::do_is_equal(const memory_resource& other) const noexcept {
  const auto* const same = dynamic_cast<const forwarding_resource*>(&other);
  return target().is_equal(same != nullptr ? same->target() : other);
}

std::optional<device_ref> forwarding_resource::do_device() const noexcept {
  return target().device();
}

bool forwarding_resource::do_is_device_accessible() const noexcept {
  return target().is_device_accessible();
}

bool forwarding_resource::do_is_host_accessible() const noexcept {
  return target().is_host_accessible();
}

cuda_async_memory_resource::cuda_async_memory_resource(std::optional<std::size_t> initial_pool_size,
                                                       std::optional<std::size_t> release_threshold,
                                                       std::optional<allocation_handle_type> handle)
    : resource_of{std::in_place, device_ref::current(), [&] {
                    hipvmm::mr::hip_async_options options;
                    options.initial_bytes = initial_pool_size.value_or(options.initial_bytes);
                    options.release_threshold =
                        release_threshold.value_or(options.release_threshold);
                    if (handle == allocation_handle_type::posix_file_descriptor)
                      options.shareable = handle_type::posix_fd;
                    return options;
                  }()} {}

}  // namespace hipvmm::hipmm::mr

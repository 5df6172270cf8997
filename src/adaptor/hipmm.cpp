// SPDX-License-Identifier: MIT
#include <hipvmm/adaptor/hipmm.hpp>

#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/managed_memory.hpp>
#include <hipvmm/mr/per_device_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include "core/check.hpp"
#include "mr/set_resource.hpp"
#include "mr/stream_wait.hpp"

namespace hipvmm::hipmm {
namespace detail {

void require_success(int code, const char* call, const char* file, unsigned line) {
  if (code == hipSuccess) return;
  hipvmm::detail::clear_last_error();
  throw hip_error{code, call, file, line};
}

void require_allocation(int code, const char* call, const char* file, unsigned line,
                        std::size_t bytes) {
  if (code == hipErrorOutOfMemory)
    hipvmm::detail::check_resources(hipErrorOutOfMemory, call, device_ref::current(), bytes);
  require_success(code, call, file, line);
}

}  // namespace detail

device_async_resource_ref::device_async_resource_ref(resource* named)
    : resource_{hipvmm::mr::require_resource("device_async_resource_ref", named)} {}

bool device_async_resource_ref::are_equal(const resource* a, const resource* b) noexcept {
  // Whoever has hipMM's interface knows what it stands for, the other one does not.
  return a != nullptr && b != nullptr && (a->is_equal(*b) || b->is_equal(*a));
}

void prefetch(const void* pointer, std::size_t bytes, cuda_device_id device,
              cuda_stream_view stream) {
  require_device(device);
  try {
    prefetch_async(stream, pointer, bytes, device);
  } catch (const std::invalid_argument&) {
    // No managed memory: programs prefetch whatever their resource gave.
  }
}

namespace mr {
namespace {

using hipvmm::mr::memory_resource;

void require_known_alignment(std::size_t alignment) {
  if (alignment > memory_resource::default_alignment)
    throw unsupported{"device_memory_resource: an alignment of " + std::to_string(alignment) +
                      " bytes is more than the 256 that hipMM's interface knows; put an "
                      "aligned_resource_adaptor over the resource"};
}

class named_resource final : public forwarding_resource {
 public:
  explicit named_resource(memory_resource& resource) noexcept : resource_{resource} {}

 private:
  [[nodiscard]] memory_resource& target() const noexcept override { return resource_; }
  memory_resource& resource_;
};

device_memory_resource* with_hipmm_interface(memory_resource* resource) {
  if (auto* const known = dynamic_cast<device_memory_resource*>(resource)) return known;
  // Never destroyed: what ends last may still ask. An address stands for whatever lives there.
  static auto& lock = *new std::mutex;
  static auto& wrapped = *new std::map<memory_resource*, named_resource>;
  const std::lock_guard guard{lock};
  return &wrapped.try_emplace(resource, *resource).first->second;
}

// What was set here may have ended, as RMM allows, and is known without being followed.
device_memory_resource* with_hipmm_interface(hipvmm::detail::set_resource set) {
  if (set.adapted != nullptr) return static_cast<device_memory_resource*>(set.adapted);
  return with_hipmm_interface(set.resource);
}

hipvmm::detail::set_resource set_with_interface(cuda_device_id device, memory_resource* resource) {
  device_memory_resource* const adapted =
      resource != nullptr ? with_hipmm_interface(resource) : nullptr;
  return hipvmm::detail::exchange_resource(device, {resource, adapted});
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

std::size_t maximum_of_pool(std::size_t initial_pool_size,
                            std::optional<std::size_t> maximum_pool_size) {
  const std::size_t maximum = maximum_pool_size.value_or(std::numeric_limits<std::size_t>::max());
  if (maximum < initial_pool_size)
    throw std::invalid_argument{"pool_memory_resource: maximum_pool_size is " +
                                std::to_string(maximum) + ", less than initial_pool_size, " +
                                std::to_string(initial_pool_size)};
  return maximum;
}

pool_memory_resource<cuda_memory_resource>::pool_memory_resource(
    cuda_memory_resource* upstream, std::size_t initial_pool_size,
    std::optional<std::size_t> maximum_pool_size)
    : resource_of{std::in_place,
                  hipvmm::mr::require_resource("pool_memory_resource", upstream)->device().value(),
                  [&] {
                    hipvmm::mr::pool_options options;
                    options.initial_bytes = initial_pool_size;
                    options.maximum_bytes = maximum_pool_size.value_or(options.maximum_bytes);
                    return options;
                  }()},
      upstream_{upstream} {}

device_memory_resource* get_per_device_resource(cuda_device_id device) {
  return with_hipmm_interface(hipvmm::detail::resource_set_for(device));
}

device_memory_resource* set_per_device_resource(cuda_device_id device, memory_resource* resource) {
  // Made first, for nothing may fail behind the change; another thread may change it in between.
  with_hipmm_interface(hipvmm::detail::resource_set_for(device));
  return with_hipmm_interface(set_with_interface(device, resource));
}

device_async_resource_ref get_per_device_resource_ref(cuda_device_id device) {
  return hipvmm::mr::get_per_device_resource(device);
}

device_async_resource_ref set_per_device_resource_ref(cuda_device_id device,
                                                      device_async_resource_ref resource) {
  return set_with_interface(device, resource).resource;
}

device_async_resource_ref reset_per_device_resource_ref(cuda_device_id device) {
  return hipvmm::mr::set_per_device_resource(device, nullptr);
}

device_async_resource_ref get_current_device_resource_ref() {
  return get_per_device_resource_ref({});
}

device_async_resource_ref set_current_device_resource_ref(device_async_resource_ref resource) {
  return set_per_device_resource_ref({}, resource);
}

device_async_resource_ref reset_current_device_resource_ref() {
  return reset_per_device_resource_ref({});
}

device_memory_resource* get_current_device_resource() { return get_per_device_resource({}); }

device_memory_resource* set_current_device_resource(memory_resource* resource) {
  return set_per_device_resource({}, resource);
}

}  // namespace mr
}  // namespace hipvmm::hipmm

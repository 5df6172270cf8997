// SPDX-License-Identifier: MIT
#include <hipvmm/compat/hipmm.hpp>

#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include <hipvmm/mr/resource/hip_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include <hipvmm/mr/resource_adaptor.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/managed_memory.hpp>
#include "core/check.hpp"
#include "mr/resource/set_resource.hpp"
#include "mr/stream_wait.hpp"
#include "runtime/check_resources.hpp"

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

void prefetch(const void* pointer, std::size_t bytes, cuda_device_id device,
              cuda_stream_view stream) {
  require_device(device);
  try {
    prefetch_async(stream, pointer, bytes, device);
  } catch (const std::invalid_argument&) {
    // Not managed memory: programs prefetch memory of any resource.
  }
}

namespace mr {
namespace {

using hipvmm::mr::memory_resource;

class named_resource final : public forwarding_resource {
 public:
  explicit named_resource(memory_resource& resource) noexcept : resource_{resource} {}

 private:
  [[nodiscard]] memory_resource& target() const noexcept override { return resource_; }
  memory_resource& resource_;
};

// Programs find out by dynamic_cast whether the initial resource is a cuda_memory_resource.
cuda_memory_resource* hip_memory_of(device_ref device) {
  const scoped_device scope{device};
  static auto& lock = *new std::mutex;
  static auto& made = *new std::map<int, cuda_memory_resource>;
  const std::lock_guard guard{lock};
  return &made.try_emplace(device.ordinal()).first->second;
}

device_memory_resource* with_hipmm_interface(memory_resource* resource) {
  if (auto* const known = dynamic_cast<device_memory_resource*>(resource)) return known;
  if (const auto* const plain = dynamic_cast<hipvmm::mr::hip_resource*>(resource))
    return hip_memory_of(*static_cast<const memory_resource*>(plain)->device());
  // Never destroyed, because static objects that end last may still use it. A later resource at the
  // same address gets the same wrapper, which refers to it.
  static auto& lock = *new std::mutex;
  static auto& wrapped = *new std::map<memory_resource*, named_resource>;
  const std::lock_guard guard{lock};
  return &wrapped.try_emplace(resource, *resource).first->second;
}

// A resource set here may have ended, as RMM allows; it is recognized without a dereference.
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

device_memory_resource* get_per_device_resource(cuda_device_id device) {
  return with_hipmm_interface(hipvmm::detail::resource_set_for(device));
}

device_memory_resource* set_per_device_resource(cuda_device_id device, memory_resource* resource) {
  // Wraps the present one first, because nothing may fail after the change. Another thread may
  // change the resource in between.
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

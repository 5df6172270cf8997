// SPDX-License-Identifier: MIT
#include <hipvmm/vmm/physical_chunk.hpp>

#include <atomic>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/driver_calls.hpp"
#include "core/logger.hpp"
#include "runtime/check_resources.hpp"

namespace hipvmm {

using detail::check;

namespace {

hipMemAllocationProp properties(device_ref device, handle_type shareable) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = device.ordinal();
  properties.requestedHandleType = shareable == handle_type::posix_fd
                                       ? hipMemHandleTypePosixFileDescriptor
                                       : hipMemHandleTypeNone;
  return properties;
}

std::uint64_t next_creation_index() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

allocation_granularity granularity_of(device_ref device) {
  if (!device.supports_virtual_memory())
    throw unsupported{"device " + std::to_string(device.ordinal()) +
                      " offers no virtual memory management (its HIP attribute says 0)"};
  const hipMemAllocationProp wanted = properties(device, handle_type::none);
  allocation_granularity result{};
  check(
      hipMemGetAllocationGranularity(&result.minimum, &wanted, hipMemAllocationGranularityMinimum),
      "hipMemGetAllocationGranularity");
  check(hipMemGetAllocationGranularity(&result.recommended, &wanted,
                                       hipMemAllocationGranularityRecommended),
        "hipMemGetAllocationGranularity");
  return result;
}

physical_chunk::physical_chunk(device_ref device, std::size_t bytes, handle_type shareable)
    : device_{device}, bytes_{bytes}, shareable_{shareable} {
  // The newest ROCm takes the device from the calling thread and not from the properties.
  const scoped_device scope{device};
  const hipMemAllocationProp wanted = properties(device, shareable);
  hipMemGenericAllocationHandle_t handle = nullptr;
  const hipError_t result = detail::timed(detail::memory_call::create,
                                          [&] { return hipMemCreate(&handle, bytes, &wanted, 0); });
  if (result == hipErrorInvalidValue) {
    detail::clear_last_error();
    const std::size_t unit = granularity_of(device).minimum;
    if (bytes == 0 || bytes % unit != 0)
      throw std::invalid_argument{"a chunk of " + std::to_string(bytes) + " bytes on device " +
                                  std::to_string(device.ordinal()) +
                                  ": the size must be a multiple of its granularity, " +
                                  std::to_string(unit) + " bytes, and not zero"};
  }
  detail::check_resources(result, "hipMemCreate", device, bytes);
  handle_ = handle;
  creation_index_ = next_creation_index();
  detail::log<log_level::trace>([&] {
    return "hipMemCreate gave chunk " + std::to_string(creation_index_) + ", " +
           format_bytes(bytes) + " of device " + std::to_string(device.ordinal());
  });
}

physical_chunk::~physical_chunk() {
  if (handle_ == nullptr) return;
  detail::report(
      detail::timed(detail::memory_call::release, [&] { return hipMemRelease(handle_); }),
      "hipMemRelease");
  detail::log<log_level::trace>([&] {
    return "hipMemRelease took chunk " + std::to_string(creation_index_) + ", " +
           format_bytes(bytes_) + " of device " + std::to_string(device_.ordinal()) + ", back";
  });
}

physical_chunk& physical_chunk::operator=(physical_chunk&& other) noexcept {
  physical_chunk moved{std::move(other)};
  std::swap(handle_, moved.handle_);
  std::swap(device_, moved.device_);
  std::swap(bytes_, moved.bytes_);
  std::swap(creation_index_, moved.creation_index_);
  std::swap(shareable_, moved.shareable_);
  std::swap(shared_, moved.shared_);
  return *this;
}

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <hip/hip_runtime_api.h>

#include <cstring>
#include <mutex>
#include <stdexcept>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/resource/hip_async_resource.hpp>
#include "core/check.hpp"
#include "core/error.hpp"
#include "mr/resource/pool_sharing.hpp"
#include "runtime/check_resources.hpp"

namespace hipvmm::mr {
namespace {

static_assert(sizeof(exported_pointer) == sizeof(hipMemPoolPtrExportData));

// A descriptor of one's own for the memory of `handle`.
shareable_handle duplicate(const shareable_handle& handle, device_ref device) {
  const int copy = ::fcntl(handle.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    throw out_of_memory{exhausted::descriptors, device.ordinal(), 0, device.free_memory(),
                        "the export of a pool needs two"};
  return shareable_handle{copy, 0};
}

}  // namespace

void hip_async_resource::grant(device_ref device, access_right right) {
  require_own_process();
  detail::set_pool_right(get(), this->device(), {device, right});
}

access_right hip_async_resource::access(device_ref device) const {
  return detail::pool_right(get(), device);
}

void hip_async_resource::require_shareable() const {
  if (shareable_ != handle_type::posix_fd)
    throw std::invalid_argument{
        "the export of a pool that this hip_async_resource did not make to be shared: set "
        "hip_async_options::shareable to handle_type::posix_fd; views export nothing"};
}

shareable_handle hip_async_resource::export_handle() {
  require_own_process();
  require_shareable();
  const std::lock_guard lock{exporting_};
  if (exported_.empty()) {
    // ROCm gives the same descriptor each time and never closes it, CUDA a new one: asked once.
    int descriptor = -1;
    detail::check_resources(hipMemPoolExportToShareableHandle(
                                &descriptor, get(), hipMemHandleTypePosixFileDescriptor, 0),
                            "hipMemPoolExportToShareableHandle", device(), 0);
    exported_ = shareable_handle{descriptor, 0};
  }
  return duplicate(exported_, device());
}

exported_pointer hip_async_resource::export_pointer(void* pointer) const {
  require_shareable();
  hipMemPoolPtrExportData data{};
  const hipError_t result = hipMemPoolExportPointer(&data, pointer);
  // ROCm says "out of memory" of an address that it does not know.
  if (result == hipErrorInvalidValue || result == hipErrorOutOfMemory) {
    detail::clear_last_error();
    throw std::invalid_argument{
        "hip_async_resource: " + detail::address_text(pointer) +
        " is not the start of a block of this pool that is in use (hipMemPoolExportPointer: " +
        detail::error_name(result) +
        "); export what allocate() gave. Memory of hipMalloc belongs to no pool: copy it into one"};
  }
  detail::check(result, "hipMemPoolExportPointer");
  exported_pointer exported;
  std::memcpy(exported.data.data(), &data, sizeof(data));
  return exported;
}

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#include <hipvmm/mr/resource/pool_sharing.hpp>

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "core/descriptors.hpp"
#include "mr/resource/pool_sharing.hpp"
#include "mr/stream_wait.hpp"
#include "runtime/check_resources.hpp"
#include "runtime/pointer_memory.hpp"
#include "runtime/pool/hip_pool.hpp"
#include "vmm/access.hpp"

namespace hipvmm::detail {
namespace {

std::string named(device_ref device) { return "device " + std::to_string(device.ordinal()); }

}  // namespace

access_right pool_right(hipMemPool_t pool, device_ref device) {
  require_device(device);
  hipMemLocation location = to_location(device);
  hipMemAccessFlags flags = hipMemAccessFlagsProtNone;
  check(hipMemPoolGetAccess(&flags, pool, &location), "hipMemPoolGetAccess");
  return to_right(flags);
}

void set_pool_right(hipMemPool_t pool, device_ref owner, access_desc desc) {
  require_device(desc.device);
  if (desc.device == owner && desc.right != access_right::read_write)
    throw std::invalid_argument{"a pool on " + named(owner) +
                                ": its own device always reads and writes (HIP's rule); name a "
                                "peer, or read_write"};
  if (desc.right == access_right::none) {
    if (pool_right(pool, desc.device) == access_right::none) return;
  } else {
    require_reach(desc.device, owner);
  }
  const hipMemAccessDesc wanted = to_hip(desc);
  const hipError_t result = hipMemPoolSetAccess(pool, &wanted, 1);
  const char* missing = nullptr;
  if (desc.right == access_right::none && result == hipErrorInvalidDevice)
    missing = "be taken back (ROCm up to 6.4); destroy the pool instead";
  if (desc.right == access_right::read && result == hipErrorNotSupported)
    missing = "be for reading only (CUDA); grant access_right::read_write";
  if (missing != nullptr) {
    clear_last_error();
    throw unsupported{"the right of " + named(desc.device) + " to a pool on " + named(owner) +
                      " cannot " + missing};
  }
  check(result, "hipMemPoolSetAccess");
}

}  // namespace hipvmm::detail

namespace hipvmm::mr {

imported_pool::imported_pool(const shareable_handle& handle, device_ref device) : device_{device} {
  detail::require_pools(device);
  if (handle.empty())
    throw std::invalid_argument{
        "imported_pool: the handle is empty: pass the one that export_handle() gave"};
  detail::require_open_descriptor(handle.get(), "the import of a pool");
  // Newer releases of ROCm give the pool the calling thread's device. All releases take a pool's
  // descriptor by value, unlike a chunk's.
  const scoped_device scope{device};
  void* const descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(handle.get()));
  const auto alone = detail::lock_for_pool_change();
  hipMemPool_t pool = nullptr;
  detail::check_resources(hipMemPoolImportFromShareableHandle(
                              &pool, descriptor, hipMemHandleTypePosixFileDescriptor, 0),
                          "hipMemPoolImportFromShareableHandle", device, 0);
  pool_.reset(pool);
}

void imported_pool::deleter::operator()(ihipMemPoolHandle_t* pool) const noexcept {
  if (!process.is_of_parent()) detail::destroy_pool(pool);
}

device_allocation imported_pool::import_pointer(const exported_pointer& pointer,
                                                std::size_t bytes) const {
  pool_.get_deleter().process.require_own();
  hipMemPoolPtrExportData data{};
  std::memcpy(&data, pointer.data.data(), sizeof(data));
  void* address = nullptr;
  const hipError_t result = hipMemPoolImportPointer(&address, get(), &data);
  if (result == hipErrorInvalidValue) {
    detail::clear_last_error();
    throw std::invalid_argument{
        "imported_pool: hipMemPoolImportPointer does not take the data; send the "
        "result of export_pointer() of the pool that this one was imported from"};
  }
  detail::check_resources(result, "hipMemPoolImportPointer", device_, bytes);
  device_allocation imported{address, device_, bytes};
  const void* base = nullptr;
  std::size_t present = 0;
  // A runtime that does not know the size is no reason to refuse.
  if (detail::query_range(address, base, present) != hipSuccess) {
    detail::clear_last_error();
    present = bytes;
  } else {
    present -= static_cast<std::size_t>(static_cast<const char*>(address) -
                                        static_cast<const char*>(base));
  }
  if (bytes == 0 || bytes > present)
    throw std::invalid_argument{"imported_pool: " + std::to_string(bytes) +
                                " bytes of a block, of which HIP has " + std::to_string(present) +
                                "; pass the size that was allocated"};
  return imported;
}

void imported_pool::release(stream_ref stream, device_allocation&& block) const noexcept {
  device_allocation freed = std::move(block);
  if (freed.get() == nullptr || pool_.get_deleter().process.is_of_parent()) return;
  // ROCm 7.2.4 crashes for hipFreeAsync in a stream that is gone, and not every hipFree waits.
  detail::report_exceptions([&] {
    if (detail::captured_unless_gone(stream, freed.bytes()).has_value())
      return detail::free_async(stream, freed.release());
    detail::wait_for_all_devices();
  });
}

void imported_pool::grant(device_ref device, access_right right) const {
  pool_.get_deleter().process.require_own();
  detail::set_pool_right(get(), device_, {device, right});
}

access_right imported_pool::access(device_ref device) const {
  pool_.get_deleter().process.require_own();
  return detail::pool_right(get(), device);
}

}  // namespace hipvmm::mr

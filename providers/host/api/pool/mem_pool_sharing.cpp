// SPDX-License-Identifier: MIT
#include <fcntl.h>

#include <cstring>

#include "api/memory.hpp"
#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "machine/call.hpp"
#include "memory/shared_file.hpp"
#include "memory/tracked_range.hpp"
#include "pool/mem_pool_set.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr std::uint64_t pointer_mark = 0x68697076706F6F6C;  // other data lacks it

// The data of hipMemPoolExportPointer. It needs no descriptor, because an importer finds the memory
// in the file of its imported pool: the program may send it by any means.
struct exported_pointer {
  std::uint64_t mark;
  std::uint64_t file_identity;
  std::uint64_t offset;
  std::uint64_t bytes;
};
static_assert(sizeof(exported_pointer) <= sizeof(hipMemPoolPtrExportData));

bool is_posix(const hipMemAllocationHandleType& type) noexcept {
  return value_of(type) == hipMemHandleTypePosixFileDescriptor;
}

bool fits(const exported_pointer& pointer, const shared_file& file, std::size_t page) noexcept {
  return pointer.mark == pointer_mark && pointer.file_identity == file.identity &&
         pointer.offset >= page && pointer.offset % page == 0 && pointer.bytes != 0 &&
         pointer.offset < file.bytes && pointer.bytes <= file.bytes - pointer.offset;
}

// Throws: failure with hipErrorInvalidDevice if this process does not have the exporter's device.
int device_of(const runtime& machine, const shared_file& imported) {
  const imported_device rule = machine.rules().pool_device;
  if (rule == imported_device::current) return current_device();
  const int exporter = machine.places().device_at(imported.place);
  require(rule == imported_device::first || machine.has_device(exporter), hipErrorInvalidDevice);
  return rule == imported_device::first ? 0 : exporter;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipMemPoolExportToShareableHandle(void* shareable, hipMemPool_t pool,
                                             hipMemAllocationHandleType type, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(shareable != nullptr && flags == 0 && is_posix(type));
    const std::shared_ptr<mem_pool> exported = machine.pools().find(pool);
    require(exported->is_shareable());
    *static_cast<int*>(shareable) = machine.rules().exported == pool_export::new_descriptor
                                        ? duplicate(exported->file()).release()
                                        : exported->lasting_descriptor();
    return hipSuccess;
  });
}

hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t* pool, void* os_handle,
                                               hipMemAllocationHandleType type,
                                               unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pool != nullptr && flags == 0 && is_posix(type));
    const profile& rules = machine.rules();
    const int given = descriptor_from(os_handle, rules.pool_import, rules.zero);
    if (rules.foreign_pool == bad_pointer::followed) {
      require(given >= 0, hipErrorOutOfMemory);
      if (fcntl(given, F_GETFD) < 0) {
        throw crash{"reads a mapping of the descriptor that it did not get",
                    "ROCm/clr 6.4.3, os_posix.cpp"};
      }
    }
    const shared_file found =
        shared_file::identify(given, pool_file, machine.configuration().machine_devices);
    *pool =
        machine.pools().add(pool_origin::imported, device_of(machine, found), 0, duplicate(given));
    return hipSuccess;
  });
}

hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* data, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(data != nullptr && pointer != nullptr);
    const std::optional<tracked_range> found = machine.addresses().find(address_of(pointer));
    require(found.has_value(), machine.rules().bad_export_pointer);
    if (found->kind == memory_kind::device_allocation) {
      require(machine.rules().pool_pointers == pointer_export::of_hip_malloc_too &&
              found->start == address_of(pointer));
      static_assert(sizeof(*data) == named_allocation_bytes);
      name_allocation(machine, *found, data);
      return hipSuccess;
    }
    require(found->kind == memory_kind::pool_block);
    require(found->start == address_of(pointer));
    const auto block = std::static_pointer_cast<pool_block>(found->tenant);
    const std::shared_ptr<mem_pool> pool = block->pool();
    require(pool != nullptr && pool->is_shareable());
    const exported_pointer exported{
        pointer_mark,
        shared_file::identify(pool->file(), pool_file, machine.configuration().machine_devices)
            .identity,
        static_cast<std::uint64_t>(block->pages().offset), found->bytes};
    std::memset(data, 0, sizeof(*data));
    std::memcpy(data, &exported, sizeof(exported));
    return hipSuccess;
  });
}

hipError_t hipMemPoolImportPointer(void** pointer, hipMemPool_t pool,
                                   hipMemPoolPtrExportData* data) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && data != nullptr);
    const std::shared_ptr<mem_pool> from = machine.pools().find(pool);
    if (machine.rules().pool_pointers == pointer_export::of_hip_malloc_too &&
        names_allocation(data)) {
      *pointer = map_named(machine, data, own_name::taken);
      return hipSuccess;
    }
    require(from->origin() == pool_origin::imported);
    exported_pointer wanted{};
    std::memcpy(&wanted, data, sizeof(wanted));
    const shared_file file =
        shared_file::identify(from->file(), pool_file, machine.configuration().machine_devices);
    require(fits(wanted, file, mem_pool::page_bytes()));
    *pointer = pointer_to(from->borrow(wanted.bytes, static_cast<off_t>(wanted.offset),
                                       machine.device(from->device()).streams.null()));
    return hipSuccess;
  });
}

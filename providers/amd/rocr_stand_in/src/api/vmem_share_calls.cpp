// SPDX-License-Identifier: MIT
// Handles as file descriptors: ROCr's Runtime::VMemoryExportShareableHandle and
// VMemoryImportShareableHandle. A descriptor's file position says which range is meant, and moves
// with the descriptor; after the range's memory the file has a record of its size.
#include <mutex>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hsa/hsa_ext_amd.h>

#include "src/base/call.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"

namespace stand_in {
namespace {

int export_range(backing& memory) {
  const heap& of = *memory.owner->memory;
  // An own file description, so that no one else moves its position.
  const int file = open(text("/proc/self/fd/%d", memory.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  const export_record record{export_magic + memory.owner->node, memory.bytes};
  const auto at = static_cast<off_t>(of.record_offset(memory.offset));
  if (pwrite(file, &record, sizeof record, at) != sizeof record ||
      lseek(file, static_cast<off_t>(memory.offset), SEEK_SET) < 0) {
    close(file);
    return -1;
  }
  memory.exported = true;
  return file;
}

struct imported_range {
  agent* owner = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool own = false;  // of this process
};

bool read_range(int file, imported_range& into) {
  struct stat seen {};
  const off_t position = lseek(file, 0, SEEK_CUR);
  if (position < 0 || fstat(file, &seen) != 0 || !S_ISREG(seen.st_mode)) return false;
  // The record is found only if every process has heaps of the same layout.
  for (const auto& each : agents()) {
    export_record record{};
    into.offset = static_cast<std::uint64_t>(position);
    const auto at = static_cast<off_t>(each->memory->record_offset(into.offset));
    if (pread(file, &record, sizeof record, at) != sizeof record) continue;
    if (record.magic != export_magic + each->node) continue;
    struct stat own {};
    fstat(each->memory->file(), &own);
    into.owner = each.get();
    into.bytes = record.bytes;
    into.own = own.st_ino == seen.st_ino && own.st_dev == seen.st_dev;
    return true;
  }
  return false;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

extern "C" {

hsa_status_t hsa_amd_vmem_export_shareable_handle(int* dmabuf_fd,
                                                  hsa_amd_vmem_alloc_handle_t handle, uint64_t) {
  ROCR_CALL();
  if (dmabuf_fd == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *dmabuf_fd = -1;
  std::lock_guard guard(addresses().lock);
  const memory_handle* const found = find_handle(handle);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  *dmabuf_fd = export_range(*found->memory);
  return *dmabuf_fd < 0 ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_import_shareable_handle(int dmabuf_fd,
                                                  hsa_amd_vmem_alloc_handle_t* handle) {
  ROCR_CALL();
  if (handle == nullptr || fcntl(dmabuf_fd, F_GETFD) < 0) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  imported_range range;
  if (!read_range(dmabuf_fd, range)) return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
  std::lock_guard guard(addresses().lock);
  memory_handle made;
  if (range.own) {
    for (const auto& [key, other] : addresses().handles) {
      const backing& memory = *other->memory;
      if (memory.foreign || memory.owner != range.owner || memory.offset != range.offset) continue;
      made.memory = other->memory;
    }
  }
  if (made.memory == nullptr) {
    made.memory = import_backing(*range.owner, dmabuf_fd, range.offset, range.bytes);
  }
  if (made.memory == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  made.from = range.owner->pools.front().get();
  made.type = MEMORY_TYPE_PINNED;
  handle->handle = address_of(&add_handle(std::move(made)));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"

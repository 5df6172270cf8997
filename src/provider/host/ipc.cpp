// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "call.hpp"
#include "capture.hpp"
#include "pointers.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

// What a hipIpcMemHandle_t holds: where another process finds the bytes in the sparse file of the
// exporter's device, and which file that must be.
struct exported_block {
  std::array<char, 8> tag;
  pid_t process;
  int file;
  dev_t file_device;
  ino_t file_number;
  off_t offset;
  std::size_t bytes;
  int device;
};
static_assert(sizeof(exported_block) <= sizeof(hipIpcMemHandle_t));

constexpr std::array<char, 8> block_tag{'h', 'i', 'p', 'v', 'm', 'm', 'i', '1'};

// The exporter's file, opened through its process; that needs no more rights than debugging it.
descriptor open_file_of(const exported_block& block) {
  const std::string path =
      "/proc/" + std::to_string(block.process) + "/fd/" + std::to_string(block.file);
  descriptor file{open(path.c_str(), O_RDWR | O_CLOEXEC)};
  struct stat status {};
  const bool same = file.get() >= 0 && fstat(file.get(), &status) == 0 &&
                    status.st_dev == block.file_device && status.st_ino == block.file_number;
  require(same, hipErrorInvalidDevicePointer);
  require(block.offset <= status.st_size &&
          block.bytes <= static_cast<std::size_t>(status.st_size - block.offset));
  return file;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<region> found = machine.addresses().find(start);
    // Chunks are refused too: they have descriptors, and this call on them has brought down the
    // kernel on AMD (https://github.com/ROCm/clr/pull/266).
    require(found && found->kind == memory_kind::device_allocation);
    require(found->start == start || machine.rules().ipc_address == inside_allocation::taken);
    struct stat status {};
    require(fstat(found->memory->file(), &status) == 0, hipErrorOperatingSystem);
    const exported_block block{block_tag,
                               getpid(),
                               found->memory->file(),
                               status.st_dev,
                               status.st_ino,
                               found->memory->offset(),
                               found->bytes,
                               machine.place_of(found->device)};
    *handle = {};
    std::memcpy(handle, &block, sizeof(block));
    return hipSuccess;
  });
}

hipError_t hipIpcOpenMemHandle(void** pointer, hipIpcMemHandle_t handle, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && flags == hipIpcMemLazyEnablePeerAccess);
    exported_block block{};
    std::memcpy(&block, &handle, sizeof(block));
    require(block.tag == block_tag && block.bytes != 0 && block.offset >= 0);
    const int device = machine.device_at(block.device);
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(block.process != getpid(), hipErrorInvalidContext);
    auto memory = std::make_shared<chunk>(open_file_of(block), pinned_on(device), device,
                                          block.bytes, block.offset);
    *pointer = pointer_to(
        machine.addresses().allocate_from(memory_kind::imported_allocation, std::move(memory)));
    return hipSuccess;
  });
}

hipError_t hipIpcCloseMemHandle(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<region> found = machine.addresses().find(start);
    require(found && found->kind == memory_kind::imported_allocation && found->start == start);
    machine.captures().refuse_waiting_free();
    machine.wait_all();
    machine.end(*found);
    return hipSuccess;
  });
}

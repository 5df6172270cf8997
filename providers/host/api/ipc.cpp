// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "api/memory.hpp"
#include "base/enum_value.hpp"
#include "base/thread_state.hpp"
#include "core/hip_compat.hpp"
#include "graph/capture.hpp"
#include "machine/call.hpp"
#include "memory/shared_file.hpp"
#include "memory/tracked_range.hpp"
#include "stream/shared_event.hpp"

// Headers before 7.0 lack it, later ones declare the same.
extern "C" [[gnu::visibility("default")]] hipError_t hipMemGetHandleForAddressRange(
    void* handle, hipDeviceptr_t start, size_t bytes, hipvmm::hip_compat::range_handle_type type,
    unsigned long long flags);

namespace hipvmm::host_provider {
namespace {

// The contents of a hipIpcMemHandle_t: the place of the bytes in the sparse file of the exporter's
// device, and that file's identity.
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
static_assert(sizeof(hipIpcMemHandle_t) == named_allocation_bytes);
static_assert(sizeof(exported_block) <= named_allocation_bytes);

constexpr std::array<char, 8> block_tag{'h', 'i', 'p', 'v', 'm', 'm', 'i', '1'};
constexpr std::array<char, 8> fabric_tag{'h', 'i', 'p', 'v', 'm', 'f', 'a', '1'};
static_assert(sizeof(exported_block) <= hipvmm::hip_compat::fabric_handle_bytes);

exported_block block_of(const std::array<char, 8>& tag, const chunk& memory, std::size_t bytes,
                        int place) {
  struct stat status {};
  require(fstat(memory.file(), &status) == 0, hipErrorOperatingSystem);
  return {tag,           getpid(),        memory.file(), status.st_dev,
          status.st_ino, memory.offset(), bytes,         place};
}

// Opens the exporter's file through its process, with no more rights than a debugger needs.
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

struct exported_event {
  std::array<char, 8> tag;
  shared_event::address_of_file where;
  int place;  // of the event's device in the machine
};
static_assert(sizeof(exported_event) <= sizeof(hipIpcEventHandle_t));

constexpr std::array<char, 8> event_tag{'h', 'i', 'p', 'v', 'm', 'e', 'i', '1'};

}  // namespace

void name_allocation(const runtime& machine, const tracked_range& allocation, void* name) {
  const exported_block block = block_of(block_tag, *allocation.memory, allocation.bytes,
                                        machine.places().place_of(allocation.device));
  std::memset(name, 0, named_allocation_bytes);
  std::memcpy(name, &block, sizeof(block));
}

bool names_allocation(const void* name) noexcept {
  return std::memcmp(name, block_tag.data(), block_tag.size()) == 0;
}

void* map_named(runtime& machine, const void* name, own_name own) {
  exported_block block{};
  std::memcpy(&block, name, sizeof(block));
  require(block.tag == block_tag && block.bytes != 0 && block.offset >= 0);
  const int device = machine.places().device_at(block.device);
  require(machine.has_device(device), hipErrorInvalidDevice);
  require(own == own_name::taken || block.process != getpid(), hipErrorInvalidContext);
  auto memory = std::make_shared<chunk>(open_file_of(block), pinned_on(device), device, block.bytes,
                                        block.offset);
  return pointer_to(
      machine.addresses().allocate_from(memory_kind::imported_allocation, std::move(memory)));
}

}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<tracked_range> found = machine.addresses().find(start);
    // Chunks are refused too: they have descriptors, and this call on them has brought down the
    // kernel on AMD (https://github.com/ROCm/clr/pull/266).
    require(found && found->kind == memory_kind::device_allocation);
    require(found->start == start || machine.rules().ipc_address == inside_allocation::taken);
    name_allocation(machine, *found, handle);
    return hipSuccess;
  });
}

hipError_t hipIpcOpenMemHandle(void** pointer, hipIpcMemHandle_t handle, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && flags == hipIpcMemLazyEnablePeerAccess);
    *pointer = map_named(machine, &handle, own_name::refused);
    return hipSuccess;
  });
}

hipError_t hipIpcCloseMemHandle(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<tracked_range> found = machine.addresses().find(start);
    require(found && found->kind == memory_kind::imported_allocation && found->start == start);
    machine.captures().refuse_unsafe();
    machine.wait_all();
    machine.end(*found);
    return hipSuccess;
  });
}

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && event != nullptr);
    const std::shared_ptr<event_state> given = machine.event(event);
    require(given->shared() != nullptr && !given->is_opened(), machine.rules().unshared_event);
    const exported_event exported{event_tag, given->shared()->exported(),
                                  machine.places().place_of(given->device())};
    *handle = {};
    std::memcpy(handle, &exported, sizeof(exported));
    return hipSuccess;
  });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t* event, hipIpcEventHandle_t handle) {
  return call(__func__, [&](runtime& machine) {
    require(event != nullptr);
    exported_event exported{};
    std::memcpy(&exported, &handle, sizeof(exported));
    require(exported.tag == event_tag);
    const int device = machine.places().device_at(exported.place);
    require(machine.has_device(device), hipErrorInvalidDevice);
    require(exported.where.process != getpid(), hipErrorInvalidContext);
    auto opened = std::make_shared<event_state>(
        device, false, std::make_shared<shared_event>(exported.where), true);
    *event = to_handle<hipEvent_t>(machine.events().insert(std::move(opened)));
    return hipSuccess;
  });
}

hipError_t hipMemExportToShareableHandle(void* shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type,
                                         unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    const profile& rules = machine.rules();
    require(flags == 0 && (shareable != nullptr || rules.null_export == bad_pointer::followed));
    require(rules.sharing == hipSuccess, rules.sharing);
    const std::shared_ptr<chunk> memory = machine.chunks().find(from_handle(handle));
    const int made = hipvmm::hip_compat::handle_kinds(memory->properties());
    const int kind = value_of(type);
    if (kind == hipvmm::hip_compat::fabric_handle_kind && shareable != nullptr) {
      require(made == kind || made == (kind | hipMemHandleTypePosixFileDescriptor));
      const exported_block block = block_of(fabric_tag, *memory, memory->bytes(), 0);
      std::memset(shareable, 0, hipvmm::hip_compat::fabric_handle_bytes);
      std::memcpy(shareable, &block, sizeof(block));
      return hipSuccess;
    }
    // An import keeps any kind that was passed.
    require(kind == hipMemHandleTypePosixFileDescriptor &&
            (made == kind || made == (kind | hipvmm::hip_compat::fabric_handle_kind)));
    if (shareable == nullptr) {
      throw crash{"writes the descriptor through a null pointer",
                  "ROCm/clr 6.2 to 6.4, hip_vm.cpp"};
    }
    *static_cast<int*>(shareable) = duplicate(memory->file()).release();
    return hipSuccess;
  });
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                           hipMemAllocationHandleType type) {
  return call(__func__, [&](runtime& machine) {
    const profile& rules = machine.rules();
    require(handle != nullptr);
    require(rules.sharing == hipSuccess, rules.sharing);
    descriptor opened;
    int given = -1;
    if (value_of(type) == hipvmm::hip_compat::fabric_handle_kind &&
        machine.configuration().fabric_handles) {
      require(os_handle != nullptr);
      exported_block block{};
      std::memcpy(&block, os_handle, sizeof(block));
      require(block.tag == fabric_tag && block.offset >= 0);
      opened = open_file_of(block);
      given = opened.get();
    } else {
      require(value_of(type) == hipMemHandleTypePosixFileDescriptor ||
              rules.import_type == extra_type::taken);
      given = descriptor_from(os_handle, rules.chunk_import, rules.zero);
    }
    const shared_file found = shared_file::identify(
        given, chunk_file, machine.configuration().machine_devices, rules.foreign_descriptor);
    require(found.bytes != 0 && found.bytes % machine.configuration().granularity == 0);
    const int owner = machine.places().device_at(found.place);
    require(machine.has_device(owner), hipErrorInvalidDevice);
    const bool tells_owner = rules.chunk_device == imported_device::exporter;
    hipMemAllocationProp properties = pinned_on(tells_owner ? owner : current_device());
    std::memcpy(&properties.requestedHandleType, &type, sizeof type);  // may be no enumerator
    *handle = to_handle<hipMemGenericAllocationHandle_t>(machine.chunks().add(
        std::make_shared<chunk>(duplicate(given), properties, owner, found.bytes)));
    return hipSuccess;
  });
}

// A part of a memory file is no file: nothing here is a dma-buf.
hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t start, size_t bytes,
                                          hipvmm::hip_compat::range_handle_type type,
                                          unsigned long long flags) {
  return call(__func__, [&](runtime& machine) {
    require(handle != nullptr && start != nullptr && bytes != 0 && flags <= 1);
    require(value_of(type) == hipvmm::hip_compat::dma_buf_of_range);
    const auto page = static_cast<address>(::sysconf(_SC_PAGESIZE));
    const address first = address_of(start);
    require(first % page == 0 && bytes % page == 0);
    for (address at = first; at < first + bytes;) {
      const std::optional<tracked_range> found = machine.addresses().find(at);
      require(found.has_value());
      at = found->start + found->bytes;
    }
    return hipErrorNotSupported;
  });
}

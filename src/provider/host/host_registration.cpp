// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "call.hpp"
#include "capture.hpp"
#include "pointers.hpp"
#include "thread_state.hpp"

namespace hipvmm::host_provider {
namespace {

// Newer headers name two more: read-only (8), which AMD accepts and ignores, and uncached.
constexpr unsigned registration_flags =
    hipHostRegisterPortable | hipHostRegisterMapped | hipHostRegisterIoMemory | 0x8U | 0x80000000U;

struct protection {
  bool readable;
  bool writable;
};

// What the process itself may do with all of a range; nothing where there is a hole in it. Asked of
// the operating system, because touching a page to find out could end the program.
protection protection_of(address start, std::size_t bytes) {
  std::ifstream maps{"/proc/self/maps"};
  const address end = start + bytes;
  protection all{true, true};
  address covered = start;
  for (std::string line; covered < end && std::getline(maps, line);) {
    address first = 0;
    address last = 0;
    char read = '-';
    char write = '-';
    const int fields =
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %c%c", &first, &last, &read, &write);
    if (fields != 4 || last <= covered) continue;
    if (first > covered) break;
    all.readable = all.readable && read == 'r';
    all.writable = all.writable && write == 'w';
    covered = last;
  }
  return covered < end ? protection{false, false} : all;
}

}  // namespace
}  // namespace hipvmm::host_provider

using namespace hipvmm::host_provider;

hipError_t hipHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr && bytes != 0);
    require((flags & ~registration_flags) == 0);
    const address start = address_of(pointer);
    require(start + bytes > start);
    const protection given = protection_of(start, bytes);
    require(given.readable);
    machine.captures().refuse_unsafe();
    machine.addresses().register_host(start, bytes, current_device(), flags, given.writable);
    return hipSuccess;
  });
}

hipError_t hipHostUnregister(void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(pointer != nullptr);
    const address start = address_of(pointer);
    const std::optional<region> found = machine.addresses().find(start);
    require(found && found->kind == memory_kind::registration && found->start == start,
            hipErrorHostMemoryNotRegistered);
    machine.captures().refuse_waiting_free();
    machine.wait_all();
    machine.end(*found);
    return hipSuccess;
  });
}

hipError_t hipHostGetFlags(unsigned int* flags, void* pointer) {
  return call(__func__, [&](runtime& machine) {
    require(flags != nullptr && pointer != nullptr);
    const std::optional<region> found = machine.addresses().find(address_of(pointer));
    require(found && is_pinned(*found));
    *flags = told_flags_of(machine.rules(), *found);
    return hipSuccess;
  });
}

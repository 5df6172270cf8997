// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

struct ihipMemGenericAllocationHandle;

namespace hipvmm {

/// A mapped chunk. It owns nothing.
struct mapped_memory {
  void* address;      ///< no two have the same at a time
  std::size_t bytes;  ///< a multiple of the device's granularity
  device_ref device;  ///< as physical_chunk::device()
  memory_location location;
  ihipMemGenericAllocationHandle* handle;  ///< two addresses may have the same
  handle_type shareable;
};

/// Registers memory with a communication library once it is mapped, and ends that before the unmap.
/// - One remove() follows each add() that returned, unless the process ends first.
/// - Memory that moves to a second address is added there before it is removed at the first. Memory
///   that move_range(), trim(), suspend() and resume() replace is removed and added.
/// - Changes of rights are not reported.
/// - Any thread may call both functions, several at a time for different memory.
/// - They may call HIP and other libraries, and allocate memory of the host. They must not use the
///   object that owns the memory nor wait for a thread that does, because a pool may hold a lock;
///   nor wait for other processes.
class memory_registrar {
 public:
  memory_registrar& operator=(memory_registrar&&) = delete;
  virtual ~memory_registrar() = default;

  /// `memory` is mapped with all rights of the object, and no caller has it yet. Throws: any
  /// std::exception; the growth then fails with it and changes nothing. If the library adds memory
  /// back after a failure, the error handler gets the exception and the memory stays unregistered.
  virtual void add(const mapped_memory& memory) = 0;
  /// The library unmaps `memory` next. Work that used it has passed.
  virtual void remove(const mapped_memory& memory) noexcept = 0;
};

}  // namespace hipvmm

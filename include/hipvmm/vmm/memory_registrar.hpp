// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

// The opaque struct behind hipMemGenericAllocationHandle_t.
struct ihipMemGenericAllocationHandle;

namespace hipvmm {

/// A chunk at the address of its mapping. It owns nothing.
struct mapped_memory {
  void* address;                           ///< of its first byte; no two have the same at a time
  std::size_t bytes;                       ///< its size, a multiple of the device's granularity
  device_ref device;                       ///< as physical_chunk::device()
  memory_location location;                ///< the place of the memory
  ihipMemGenericAllocationHandle* handle;  ///< HIP's handle; two addresses may show one chunk
  handle_type shareable;                   ///< how the chunk can be exported
};

/// Registers memory with a communication library once it is mapped, and ends that before it is
/// unmapped: region_options::registrar, mr::pool_options::registrar, slot_arena_options::registrar.
/// - One remove() follows each add() that returned, whatever fails, unless the process ends first.
/// - Memory that gets a second address, by growth past the maximum or in a pool, is added there
///   before it is removed at the first. Memory that move_range() and trim() replace, and that
///   suspend() takes and resume() makes, is removed and added.
/// - Changes of rights are not reported.
/// - The thread of the operation calls both functions, or the thread of a request that evicts the
///   memory, or a thread of the library; several may call them at a time, for different memory.
/// - They may call HIP and other libraries, and allocate memory of the host. They must not use the
///   object that owns the memory, nor wait for a thread that does, because a pool may hold a lock;
///   nor wait for other processes.
class memory_registrar {
 public:
  memory_registrar& operator=(memory_registrar&&) = delete;
  virtual ~memory_registrar() = default;

  /// `memory` is mapped with all rights of the object, and no caller has received it. Throws: any
  /// std::exception. The growth then fails with it and changes nothing. If the library adds memory
  /// back after an operation that failed, because HIP did not unmap it or it was mapped again, the
  /// error handler gets the exception, and the memory stays without registration.
  virtual void add(const mapped_memory& memory) = 0;
  /// The library unmaps `memory` next. The work that it waits for has passed.
  virtual void remove(const mapped_memory& memory) noexcept = 0;
};

}  // namespace hipvmm

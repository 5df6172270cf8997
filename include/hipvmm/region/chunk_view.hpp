// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

// The opaque struct behind hipMemGenericAllocationHandle_t.
struct ihipMemGenericAllocationHandle;

namespace hipvmm {

/// A chunk of a region, as region::chunks() lists it: what registration with a communication
/// library, or another process, needs to know. It owns nothing.
struct chunk_view {
  std::size_t offset;                      ///< of its first byte in the region
  std::size_t bytes;                       ///< its size
  void* address;                           ///< of its first byte
  device_ref device;                       ///< whose memory it is
  ihipMemGenericAllocationHandle* handle;  ///< HIP's handle, which the region owns
  /// Greater than that of every chunk that any region of this process listed before it was backed,
  /// or moved to this offset. No two have the same.
  std::uint64_t serial;
};

/// A chunk of a region as another process gets it: the descriptor, to be sent by any transport
/// together with the other values. See region::export_chunks() and region::adopt().
struct exported_chunk {
  std::size_t offset;       ///< as chunk_view::offset
  std::uint64_t serial;     ///< as chunk_view::serial
  shareable_handle handle;  ///< owns the descriptor; bytes() is the chunk's size
};

}  // namespace hipvmm

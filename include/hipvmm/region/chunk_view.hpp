// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include <hipvmm/vmm/shareable_handle.hpp>

// The opaque struct behind hipMemGenericAllocationHandle_t.
struct ihipMemGenericAllocationHandle;

namespace hipvmm {

/// A chunk as region::chunks() lists it, for communication libraries and other processes. It owns
/// nothing.
struct chunk_view {
  std::size_t offset;                      ///< of its first byte in the region
  std::size_t bytes;                       ///< its size
  void* address;                           ///< of its first byte
  device_ref device;                       ///< the owner; for memory of the host, the region's
  ihipMemGenericAllocationHandle* handle;  ///< HIP's handle, which the region owns
  /// Greater than all that this process gave before; new when the chunk is backed and when it moves
  /// to this offset.
  std::uint64_t serial;
  memory_location location = device;             ///< the place of the memory
  chunk_memory memory = chunk_memory::standard;  ///< how caches treat it
};

/// The rights to one chunk as the driver has them: region::effective_access().
struct chunk_access {
  std::size_t offset;  ///< as chunk_view::offset
  std::size_t bytes;   ///< of the whole chunk
  access_list rights;  ///< names every device of the process, those without a right too
};

/// A chunk for another process: send the descriptor by any transport together with the other
/// values. See region::export_chunks() and region::adopt().
struct exported_chunk {
  std::size_t offset;       ///< as chunk_view::offset
  std::uint64_t serial;     ///< as chunk_view::serial
  shareable_handle handle;  ///< owns the descriptor; bytes() is the chunk's size
};

/// As exported_chunk, by a fabric handle, which is plain bytes.
struct exported_fabric_chunk {
  std::size_t offset;    ///< as chunk_view::offset
  std::uint64_t serial;  ///< as chunk_view::serial
  fabric_handle handle;  ///< its `bytes` is the chunk's size
};

/// Consecutive bytes for another process: the whole chunks that hold them. Byte `offset` is byte
/// `offset - chunks[0].offset` of the first chunk. See region::export_range(),
/// mr::vmm_pool_resource::export_block() and imported_blocks; network cards: export_dma_bufs().
struct exported_range {
  std::size_t offset = 0;              ///< of the first byte, counted as chunk_view::offset
  std::size_t bytes = 0;               ///< at least 1
  std::vector<exported_chunk> chunks;  ///< without a gap, by offset; the first contains `offset`
};

}  // namespace hipvmm

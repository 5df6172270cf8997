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

/// A chunk as region::chunks() lists it. Offsets here count bytes from region::base().
struct chunk_view {
  std::size_t offset;
  std::size_t bytes;
  void* address;
  device_ref device;                       ///< the owner; for memory of the host, the region's
  ihipMemGenericAllocationHandle* handle;  ///< owned by the region
  /// Greater than every serial before in this process. New when the chunk is backed or replaced,
  /// and when its offset changes.
  std::uint64_t serial;
  memory_location location = device;
  chunk_memory memory = chunk_memory::standard;
};

/// The rights to one chunk as the driver has them: region::effective_access().
struct chunk_access {
  std::size_t offset;
  std::size_t bytes;   ///< of the whole chunk
  access_list rights;  ///< names every device of the process, those without a right too
};

/// A chunk for another process: send the descriptor by any transport, with the other values.
struct exported_chunk {
  std::size_t offset;
  std::uint64_t serial;     ///< as chunk_view::serial
  shareable_handle handle;  ///< owns the descriptor; bytes() is the chunk's size
};

/// A chunk for another process by a fabric handle, which is plain bytes.
struct exported_fabric_chunk {
  std::size_t offset;
  std::uint64_t serial;  ///< as chunk_view::serial
  fabric_handle handle;  ///< its `bytes` is the chunk's size
};

/// Consecutive bytes for another process, and the whole chunks that hold them. See
/// region::export_range(), mr::vmm_pool_resource::export_block() and imported_blocks.
struct exported_range {
  std::size_t offset = 0;
  std::size_t bytes = 0;               ///< at least 1
  std::vector<exported_chunk> chunks;  ///< without a gap, by offset; the first contains `offset`
};

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

struct retained_chunk {
  const void* address;   ///< of its first byte in the owner's mapping
  physical_chunk chunk;  ///< has as many bytes as are mapped there
};

/// Takes a reference to the chunk that another library has mapped at `address`, which may be any of
/// its bytes. A mapping or region::adopt() maps it again, with rights of its own. The memory lives
/// until both sides have released it.
/// - Both sides order their work as two users of one buffer.
/// - physical_chunk::shared() is true: the chunk is never cached, and trim() does not replace it.
/// - The owner may unmap its side without notice. Keep the chunk while it is mapped, as
///   region::adopt() does: then no region of this process gives the memory to others. If the owner
///   is a pool, keep the block too, because the pool reuses its chunks.
/// Cost: a few calls of HIP; on CUDA, beside other chunks, up to four for each granule.
/// Pre: the chunk stays mapped there during the call. On CUDA it is mapped only once in its
/// reservation; otherwise its size is wrong.
/// Throws: std::invalid_argument if no chunk is mapped there, as in memory of the host, of
/// hipMalloc or of HIP's own pools; unsupported if HIP gives no reference by an address (ROCm up to
/// 6.4, and 7.2), or the device shows other bytes at a second address
/// (docs/reference/capability.md); hip_error.
[[nodiscard]] retained_chunk retain_chunk(const void* address);

/// The same for all chunks that hold [address, address + bytes), by address, all or none.
/// Throws: as retain_chunk(); std::invalid_argument for no bytes, for a gap, and for more bytes
/// than there are addresses.
[[nodiscard]] std::vector<retained_chunk> retain_chunks(const void* address, std::size_t bytes);

}  // namespace hipvmm

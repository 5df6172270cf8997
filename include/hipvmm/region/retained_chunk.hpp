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

/// Takes a reference to the chunk that is mapped at `address`, any byte of it: memory of another
/// library that uses virtual memory management. Map it by a mapping or region::adopt(), with rights
/// of its own. The memory lives until both sides have released it, in either order.
/// - Bytes written at one address are read at the other once that work has passed: the caller and
///   the owner order their work as two users of one buffer.
/// - physical_chunk::shared() is true: the chunk is never cached, and trim() does not replace it.
/// - The owner may unmap its side, and map other memory there, without notice. Keep the chunk while
///   it is mapped, as region::adopt() does: then no region of this process gives the memory to
///   others. If the owner is a pool, keep the block too, because the pool reuses its chunks.
/// Cost: a few calls of HIP. On CUDA, which reports the bounds of a whole reservation, up to four
/// more for each granule of a chunk that has neighbours there.
/// Pre: the chunk stays mapped there until the call returns. On CUDA a chunk that is mapped several
/// times in one reservation is found at the wrong size.
/// Throws: std::invalid_argument, with the address, if no chunk is mapped there, as in memory of
/// the host, of hipMalloc or of HIP's own pools; unsupported, with the probe's answer, if HIP gives
/// no reference by an address (ROCm up to 6.4, and 7.2), or the device shows other bytes at a
/// second address (docs/reference/capability.md); hip_error.
[[nodiscard]] retained_chunk retain_chunk(const void* address);

/// The same for all chunks that hold [address, address + bytes), by address, all or none. Throws:
/// as retain_chunk(); std::invalid_argument for no bytes, for more than there are addresses, and
/// for a gap, which it names.
[[nodiscard]] std::vector<retained_chunk> retain_chunks(const void* address, std::size_t bytes);

}  // namespace hipvmm

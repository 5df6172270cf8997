// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/core/stream.hpp>

namespace hipvmm {

/// Copies `bytes` bytes in the order of `stream`, between any two of host and device memory.
/// Stream: returns before the copy is done when the host side is pinned or absent; pageable host
/// memory has been read, or written, when the call returns (HIP's rule for hipMemcpyAsync). While
/// the stream is captured nothing is read: each launch of the graph reads and writes host memory,
/// pageable or pinned, which must live until the last launch is done.
void copy_async(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// Copies as copy_async does and waits for the stream.
void copy(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// Copies between two devices in the order of `stream`; each side is reached by its own device, so
/// that neither needs a right to the other's memory. From then on regions and vectors of either
/// device wait at their end for the work of both. Pre: `stream` belongs to one of the two.
void copy_peer_async(stream_ref stream, void* destination, device_ref destination_device,
                     const void* source, device_ref source_device, std::size_t bytes);

/// Sets `bytes` bytes of device memory to `value` in the order of `stream`.
void fill_async(stream_ref stream, void* destination, unsigned char value, std::size_t bytes);

/// Writes `count` copies of the `pattern_bytes` bytes at `pattern` (host memory), back to back, in
/// the order of `stream`. `pattern` has been read when the call returns, also where the stream is
/// captured, unless it lies in pinned memory and no capture is under way: then it must outlive the
/// copy.
/// Cost: one fill when `pattern` repeats 1, 2 or 4 bytes, else O(log count) copies on the device.
/// In a captured stream these come after a fill for each run of equal words in one element.
void fill_pattern_async(stream_ref stream, void* destination, const void* pattern,
                        std::size_t pattern_bytes, std::size_t count);

}  // namespace hipvmm

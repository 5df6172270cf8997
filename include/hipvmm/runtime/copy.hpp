// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// Copies `bytes` bytes in stream order, in any direction between host and device memory.
/// - Pinned or no host memory: returns before the copy is done.
/// - Pageable host memory has been read, or written, on return (HIP's rule for hipMemcpyAsync).
/// - In a captured stream each launch accesses host memory: keep it until the last launch is done.
/// Throws: unsupported if a missing link between two devices would make AMD's runtime end the
/// process (docs/guides/rocm.md); hip_error.
void copy_async(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// As copy_async(), and waits for `stream`.
void copy(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// Copies between two devices, which need no access to each other's memory. Exception: on ROCm 6
/// the source's device needs a right to a destination in mapped chunks, as of vectors and pools.
/// - From then on, destruction of regions and vectors of either device waits for the work of both.
/// Pre: `stream` belongs to one of the two devices.
/// Throws: unsupported as copy_async(); hip_error.
void copy_peer_async(stream_ref stream, void* destination, device_ref destination_device,
                     const void* source, device_ref source_device, std::size_t bytes);

/// Sets `bytes` bytes of device memory to `value` in the order of `stream`.
/// Throws: unsupported on AMD if the stream's device has no link to the memory's; hip_error.
void fill_async(stream_ref stream, void* destination, unsigned char value, std::size_t bytes);

/// Writes the `pattern_bytes` bytes at `pattern` (host memory) `count` times, back to back, in the
/// order of `stream`. On return `pattern` has been read. Exception: outside a capture, a pattern in
/// pinned memory must outlive the copy.
/// Cost: one fill if `pattern` repeats 1, 2 or 4 bytes, else O(log count) copies on the device; in
/// a capture one more fill for each run of equal words in `pattern`.
/// Throws: std::length_error on overflow; std::invalid_argument for null; as fill_async().
void fill_pattern_async(stream_ref stream, void* destination, const void* pattern,
                        std::size_t pattern_bytes, std::size_t count);

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// Copies `bytes` bytes in stream order, in any direction between host and device memory.
/// - Pinned or no host memory: returns before the copy is done.
/// - Pageable host memory has been read, or written, on return (HIP's rule for hipMemcpyAsync).
/// - While the stream is captured, the call copies nothing. Each launch of the graph accesses host
///   memory, pageable or pinned, which must live until the last launch is done.
/// Throws: unsupported if AMD's runtime would end the process because some devices are linked
/// and a link between two that the copy needs is missing (docs/guides/rocm.md); hip_error.
void copy_async(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// Copies like copy_async() and synchronizes the stream.
void copy(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// Copies between two devices in the order of `stream`.
/// - Neither device needs access to the other's memory. Exception: on ROCm 6 the source's device
///   copies between mapped chunks, as of vectors and pools, and needs a right to the destination.
/// - From then on, destruction of regions and vectors of either device waits for the work of both.
/// Pre: `stream` belongs to one of the two devices.
/// Throws: unsupported as copy_async(); hip_error.
void copy_peer_async(stream_ref stream, void* destination, device_ref destination_device,
                     const void* source, device_ref source_device, std::size_t bytes);

/// Sets `bytes` bytes of device memory to `value` in the order of `stream`.
/// Throws: unsupported on AMD if the stream's device has no link to the memory's; hip_error.
void fill_async(stream_ref stream, void* destination, unsigned char value, std::size_t bytes);

/// Writes the `pattern_bytes` bytes at `pattern` (host memory) `count` times, back to back, in the
/// order of `stream`. `pattern` has been read on return, even if the stream is captured. Exception:
/// without a capture, a pattern in pinned memory must outlive the copy.
/// Cost: one fill when `pattern` repeats 1, 2 or 4 bytes, else O(log count) copies on the device.
/// In a captured stream these follow one fill for each run of equal words in one element.
/// Throws: std::length_error on overflow; std::invalid_argument for null; as fill_async().
void fill_pattern_async(stream_ref stream, void* destination, const void* pattern,
                        std::size_t pattern_bytes, std::size_t count);

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {
class mapping;
}  // namespace hipvmm

namespace hipvmm::detail {

/// Unmaps `count` neighbours by one hipMemUnmap, the first of them at the highest address. Pre: all
/// map memory of one device that accepts it, in one reservation.
/// Throws: hip_error; mappings that HIP has not unmapped are still held, with their registrar.
void unmap_together(mapping* const* run, std::size_t count);

/// For probes: unmaps all of [address, address + bytes) by one hipMemUnmap. Their owners must call
/// release() then. Some releases lose the addresses (ROCm/ROCR-Runtime#285).
void unmap_range(void* address, std::size_t bytes);

/// Returns whether `address` is mapped and nobody has a right to it yet, as directly after a map.
/// Throws: hip_error if HIP does not answer a second query either.
[[nodiscard]] bool is_freshly_mapped(const void* address, device_ref owner);

}  // namespace hipvmm::detail

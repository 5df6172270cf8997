// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {
class mapping;
}  // namespace hipvmm

namespace hipvmm::detail {

/// Unmaps `count` neighbours by one call of hipMemUnmap, the first of them at the highest address.
/// All are mapped memory of one device, which accepts it, in one reservation.
/// Throws: hip_error; then those that HIP has not unmapped are held, and with their registrar.
void unmap_together(mapping* const* run, std::size_t count);

/// Unmaps all mappings in [address, address + bytes) by one call of hipMemUnmap. Their owners must
/// call release() then. For probes: some releases lose the addresses (ROCm/ROCR-Runtime#285).
void unmap_range(void* address, std::size_t bytes);

/// Returns whether `address` is mapped and nobody has a right to it yet, as directly after a map.
/// Throws: hip_error if HIP does not answer, nor on a second query.
[[nodiscard]] bool is_freshly_mapped(const void* address, device_ref owner);

}  // namespace hipvmm::detail

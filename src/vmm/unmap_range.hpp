// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {
class mapping;
}  // namespace hipvmm

namespace hipvmm::detail {

/// Unmaps `count` neighbours by one hipMemUnmap, the first at the highest address. Pre: in one
/// reservation, of one device that accepts it.
/// Throws: hip_error; mappings that HIP has not unmapped stay, with their registrar.
void unmap_together(mapping* const* run, std::size_t count);

/// For probes, by one hipMemUnmap; the owners must then call release(). Some releases lose the
/// addresses (ROCm/ROCR-Runtime#285).
void unmap_range(void* address, std::size_t bytes);

/// Whether `address` is mapped and nobody has a right to it yet. Throws: hip_error if HIP does not
/// answer a second query either.
[[nodiscard]] bool is_freshly_mapped(const void* address, device_ref owner);

}  // namespace hipvmm::detail

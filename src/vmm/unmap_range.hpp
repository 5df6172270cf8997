// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace hipvmm::detail {

/// Undoes all mappings in [address, address + bytes) by one call of hipMemUnmap. Their owners must
/// release() them then. For probes: some releases lose the addresses (ROCm/ROCR-Runtime#285).
void unmap_range(void* address, std::size_t bytes);

}  // namespace hipvmm::detail

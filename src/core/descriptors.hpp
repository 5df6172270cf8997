// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

namespace hipvmm::detail {

/// How many file descriptors this process may have: the soft limit (RLIMIT_NOFILE). Asked for each
/// time, since programs change it.
std::size_t descriptor_limit() noexcept;

/// Numbers below `limit` that are no open descriptor, counted up to `enough` of them.
/// Cost: a system call for each number looked at, about 0.1 us; needs no descriptor itself.
std::size_t free_descriptors(std::size_t limit, std::size_t enough) noexcept;

/// Whether this process has used more than half of the descriptors it may have. Looks at 64 numbers
/// spread over all: exact to that, since the system gives the lowest that is free.
bool half_of_descriptors_used() noexcept;

/// Throws std::invalid_argument unless `descriptor` is open in this process. `what` begins the
/// message, such as "the import of a chunk". ROCm 6.4 crashes on a number that is no descriptor.
void require_open_descriptor(int descriptor, const char* what);

/// Bytes of the memory or file behind `descriptor`; nothing where the system does not report them.
/// Linux does for a dma-buf, which AMD's runtime exports, and for a memfd; not for what NVIDIA's
/// driver exports. Leaves the position in the file as it is.
std::optional<std::size_t> bytes_behind(int descriptor) noexcept;

}  // namespace hipvmm::detail

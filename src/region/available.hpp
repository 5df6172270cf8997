// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm::detail {

/// Bytes of addresses to reserve if the program names no size: at most `wanted`, and below `needed`
/// only as the limits below demand. Reserves and frees addresses as a trial, unless an earlier
/// trial has shown enough. Waits for retired memory if `needed` is not available. Throws:
/// hip_error; out_of_memory if captures forbid that wait. Leaves addresses for others:
/// - an eighth of the remaining addresses for the program itself;
/// - of the rest, with n reservations of the library, `needed` up to 1/(n + 3), and more than
///   `needed` up to 1/(n + 64). No sum of such shares reaches the rest.
[[nodiscard]] std::size_t address_share(device_ref device, std::size_t needed, std::size_t wanted);

struct creatable_memory {
  std::size_t bytes;
  std::size_t chunks;  ///< the type's maximum if chunks cost no descriptors
};

/// An estimate. `bytes`: free memory within memory_budget, and memory of the shared cache and of
/// retired chunks. `chunks`: as free descriptors allow, but counted only as far as chunks of
/// `least_chunk` bytes need them. Throws: hip_error.
[[nodiscard]] creatable_memory creatable(device_ref device, std::size_t least_chunk);

}  // namespace hipvmm::detail

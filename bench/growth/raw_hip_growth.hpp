// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "grower.hpp"

namespace bench {

// Growth without the library. Pre, for all: the device is current, and stays so.

/// One chunk a step, made, mapped and opened to the device and, if there is one, to a peer in the
/// same call, in one reservation. At most `max_steps` steps.
[[nodiscard]] std::unique_ptr<grower> make_raw_calls(hipvmm::device_ref device,
                                                     std::size_t max_bytes, std::size_t max_steps,
                                                     std::optional<hipvmm::device_ref> peer = {});

/// hipMalloc of the new size, a copy of all bytes, hipFree of the old memory.
[[nodiscard]] std::unique_ptr<grower> make_copy(peak_hook at_peak = {});

/// hipMallocAsync, a copy and hipFreeAsync in one stream, from the device's default pool as it is,
/// and a wait for the stream: the step ends when the bytes are there.
[[nodiscard]] std::unique_ptr<grower> make_async_copy(peak_hook at_peak = {});

/// hipMalloc alone: the old memory is neither copied nor freed until the end.
[[nodiscard]] std::unique_ptr<grower> make_allocation();

/// Seconds that hipMemCreate takes for `bytes` bytes, which are released at once.
[[nodiscard]] double time_create(hipvmm::device_ref device, std::size_t bytes);

/// Whether HIP said that the device is full.
[[nodiscard]] bool is_out_of_memory(const hipvmm::hip_error& error);

/// Seconds to append `count` elements of `element_bytes` bytes one by one: one copy from the host
/// each, into memory that doubles by copying from `first_bytes` on whenever it is full.
[[nodiscard]] double append_one_by_one(const void* element, std::size_t element_bytes,
                                       std::size_t count, std::size_t first_bytes);

}  // namespace bench

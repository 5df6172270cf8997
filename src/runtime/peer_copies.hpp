// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <optional>
#include <utility>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

// Records which devices have exchanged memory by copies of the library, and refuses copies and
// fills over links that AMD's runtime misses (runtime_rules). A copy between two devices needs no
// access right, because it may go through the host. Its stream may belong to either device.
namespace hipvmm::detail {

/// Records for the life of the process that a copy between memory of both devices was submitted.
void note_peer_copy(device_ref one, device_ref other) noexcept;

/// Whether only some devices are linked, so that a copy between two may end the process.
[[nodiscard]] bool copies_need_links();

/// Returns the two devices whose missing link would make a copy between memory of `one` and of
/// `other` in a stream of `carrier` end the process.
[[nodiscard]] std::optional<std::pair<device_ref, device_ref>> missing_link(device_ref carrier,
                                                                            device_ref one,
                                                                            device_ref other);

struct failed_look {
  hipError_t result = hipSuccess;
  const char* call = "";
};

/// Throws: unsupported if missing_link() returns one. The caller must report a returned failure:
/// HIP did not tell the stream's device.
[[nodiscard]] failed_look require_links(stream_ref stream, device_ref one, device_ref other);
/// The same for the owners of the two ranges, part by part. No HIP call unless copies_need_links().
[[nodiscard]] failed_look require_links(stream_ref stream, const void* destination,
                                        const void* source, std::size_t bytes);

/// copy_async() without require_links(). Pre: the devices are linked, and `stream` is of one of
/// them.
void copy_among_linked(stream_ref stream, void* destination, const void* source, std::size_t bytes);

/// As require_links(), for a fill. No HIP call if all devices are linked.
[[nodiscard]] failed_look require_link_to(stream_ref stream, const void* destination,
                                          std::size_t bytes);

/// Returns the first device after ordinal `after` that exchanged memory with `device`.
[[nodiscard]] std::optional<device_ref> next_copied_with(device_ref device, int after) noexcept;

}  // namespace hipvmm::detail

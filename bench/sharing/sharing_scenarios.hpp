// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "importer.hpp"

namespace bench {

// The scenarios of sharing_bench, each with its question in its own file, and the names by which
// bars and tables find their rows.

[[nodiscard]] std::vector<measurement> measure_growth_visible(const settings& chosen,
                                                              importer& other);
[[nodiscard]] std::vector<measurement> measure_rights(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_peer_bandwidth(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_striped(const settings& chosen);
[[nodiscard]] std::vector<measurement> measure_migration(const settings& chosen);

namespace scenario {
inline constexpr const char* growth_visible = "growth to visible";
inline constexpr const char* grant = "grant";
inline constexpr const char* revoke = "revoke";
inline constexpr const char* peer_kernel = "peer reads by kernel";
inline constexpr const char* peer_copy = "peer copies by hipMemcpyAsync";
inline constexpr const char* striped = "striped read";
inline constexpr const char* migration = "move to a peer";
}  // namespace scenario

namespace name {
inline constexpr const char* raw_calls = "raw calls";
inline constexpr const char* adopt = "export_chunks, fd_channel, adopt";
inline constexpr const char* publication = "publication, attached_region";
inline constexpr const char* region = "region";
inline constexpr const char* plain = "hipMalloc, hipDeviceEnablePeerAccess";
inline constexpr const char* vector = "growable_device_vector";
inline constexpr const char* one_device = "one device";
inline constexpr const char* striped = "striped over two";
}  // namespace name

/// How often one sample of a bandwidth reads all bytes.
inline constexpr int passes = 5;

/// A device that reaches the memory of `device`; nothing where none does.
[[nodiscard]] std::optional<hipvmm::device_ref> peer_of(hipvmm::device_ref device);
[[nodiscard]] std::string no_peer(hipvmm::device_ref device);

}  // namespace bench

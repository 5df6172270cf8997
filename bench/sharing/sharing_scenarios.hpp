// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "importer.hpp"

namespace bench {

/// Devices that reach the memory of the measured one.
using peers = std::vector<hipvmm::device_ref>;
using importers = std::vector<std::unique_ptr<importer>>;

// The scenarios of sharing_bench, each with its question in its own file, and the names by which
// bars and tables find their rows.

[[nodiscard]] std::vector<measurement> measure_growth_visible(const settings& chosen,
                                                              const importers& others);
/// To all of `peers` at once.
[[nodiscard]] std::vector<measurement> measure_rights(const settings& chosen, const peers& others);
/// Between the device of `chosen` and the first of `peers`.
[[nodiscard]] std::vector<measurement> measure_peer_bandwidth(const settings& chosen,
                                                              const peers& others);
/// Over the device of `chosen` and all of `peers`.
[[nodiscard]] std::vector<measurement> measure_striped(const settings& chosen, const peers& others);
/// From each of these devices to each other.
[[nodiscard]] std::vector<measurement> measure_migration(const settings& chosen,
                                                         const peers& others);

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
inline constexpr const char* striped = "striped";
}  // namespace name

/// How often one sample of a bandwidth reads all bytes.
inline constexpr int passes = 5;

/// The first `most` devices that reach the memory of `device`.
[[nodiscard]] peers peers_of(hipvmm::device_ref device, std::size_t most);
[[nodiscard]] std::string no_peer(hipvmm::device_ref device);

}  // namespace bench

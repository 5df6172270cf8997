// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// A yes-or-no property of device memory that differs between releases of HIP. A runtime without
/// defects answers yes.
enum class trait : unsigned {
  virtual_memory,        ///< chunks can be created, mapped, granted and used
  several_reservations,  ///< several reservations can be in use at a time
  unmaps_each,           ///< mappings can be unmapped one by one, and their addresses then freed
  unmaps_many,           ///< one unmap covers several adjacent mappings
  tail_access,           ///< mappings of any size can be granted one by one, after holes too
  base_access,           ///< all mappings from the first on can be granted at once
  equal_access,          ///< mappings of one size can be granted one by one, after holes too
  reports_failed_map,
  visible_at_once,         ///< work submitted after a map finds the memory
  crosses_chunks,          ///< one copy may span adjacent mappings
  crosses_reservations,    ///< one copy may span adjacent reservations
  returns_memory,          ///< unmapped and released memory is free, addresses still reserved
  returns_with_addresses,  ///< memory is free at the latest when the addresses are freed
  coherent_aliases,        ///< a write at one address of a chunk is read at another
  keeps_read_only,         ///< read-only bytes cannot be written
  peer_access,             ///< every device that HIP calls a peer can be granted, and reads right
  peer_copies,             ///< a copy from a peer needs no rights of that peer to the target
  shares_chunks,           ///< chunks can be exported and imported
  imports_by_value,        ///< import takes the descriptor's value, else a pointer to it
  host_access,             ///< the host may access every byte that the owner may access
  counts_ending_streams,   ///< hipDeviceSynchronize waits for streams in hipStreamDestroy
  free_waits,              ///< hipFree waits for its device during captures, and invalidates none
  host_chunks,             ///< chunks can be memory of the host, and the device may use them
  retains_chunks,          ///< a chunk is found by its address, and stays while the handle is held
  uncached_chunks,         ///< chunks can be memory that no cache keeps
  host_node_chunks,        ///< chunks can be memory of one NUMA node of the host
  pools_reuse_in_order,    ///< HIP's pools reuse a block only behind the stream that freed it
  pool_frees_return,       ///< hipFreeAsync returns while work is ahead of an earlier free
};
inline constexpr std::size_t trait_count = static_cast<std::size_t>(trait::pool_frees_return) + 1;

/// Unknown: not probed, or the probe came to no result.
enum class finding { unknown, no, yes };

enum class memory_path {
  vmm,              ///< without work-arounds
  vmm_with_quirks,  ///< with work-arounds in force
  fallback,         ///< hipMalloc, and copies when a buffer grows
};

enum class quirk {
  access_from_base,    ///< rights are set for all mappings at once, or for mappings of one size
  verify_maps,         ///< HIP is queried after each map
  wait_until_visible,  ///< new mappings are not used before visibility_delay has passed
  re_reserve,          ///< an empty reservation is freed and re-reserved to release its memory
  no_aliases,          ///< no chunk is used at two addresses
  import_by_pointer,   ///< import gets a pointer to the descriptor
  larger_chunks,       ///< growth adds more slack while descriptors run short
  one_reservation,     ///< a region past its maximum moves, even if addresses behind it are free
};

/// In nanoseconds, each the second least of seven calls; zero if not measured.
struct call_costs {
  std::int64_t reserve, create, map, set_access, unmap, release, free;
};

/// The behaviour of one device's memory under this runtime. Immutable, cheap to copy.
class capability {
 public:
  [[nodiscard]] finding operator[](trait which) const noexcept;
  /// Whether the finding is yes, or unknown if docs/reference/capability.md lists unknown as yes.
  [[nodiscard]] bool has(trait which) const noexcept;
  /// A sentence: the probe's observation, or the finding's source.
  [[nodiscard]] const std::string& reason(trait which) const noexcept;

  [[nodiscard]] memory_path path() const noexcept;
  [[nodiscard]] const std::vector<quirk>& quirks() const noexcept;  ///< none unless vmm_with_quirks
  [[nodiscard]] bool needs(quirk which) const noexcept;
  /// The missing trait and why; empty unless path() is fallback.
  [[nodiscard]] const std::string& why_fallback() const noexcept;

  [[nodiscard]] std::size_t minimum_granularity() const noexcept;
  [[nodiscard]] std::size_t recommended_granularity() const noexcept;
  [[nodiscard]] int descriptors_per_chunk() const noexcept;  ///< -1: not measured
  /// The time after a map in which work may miss the mapping, with a margin; zero without
  /// wait_until_visible.
  [[nodiscard]] std::chrono::nanoseconds visibility_delay() const noexcept;
  [[nodiscard]] const call_costs& costs() const noexcept;

  /// The cache's key: device, driver, runtime, kernel and library.
  [[nodiscard]] const std::string& fingerprint() const noexcept;
  /// The source of the record, as part of a sentence: "probed now", "read from /path".
  [[nodiscard]] const std::string& origin() const noexcept;

  struct record;
  explicit capability(std::shared_ptr<const record> found) noexcept : record_{std::move(found)} {}

 private:
  std::shared_ptr<const record> record_;
};

/// The record of `device`, made at first use: read from the cache on disk, else probed, unless
/// HIPVMM_CAPABILITY changes that (docs/reference/capability.md). Thread-safe.
/// Throws: std::invalid_argument when there is no such device or HIPVMM_CAPABILITY is malformed.
[[nodiscard]] capability capability_of(device_ref device);

/// A kernel of the caller that copies `count` words. Probes read with it, because caches and page
/// tables may show a kernel other bytes than a copy engine. A thread of the library calls it, with
/// the device of `stream` current and no lock held.
using copy_kernel = std::function<void(std::uint32_t* to, const std::uint32_t* from,
                                       std::size_t count, stream_ref stream)>;

/// Probes `device` again and replaces the record of the process and on disk. Existing regions keep
/// the old record. Throws: as capability_of(); exceptions of `kernel`.
capability probe_capability(device_ref device, const copy_kernel& kernel = {});

[[nodiscard]] std::string_view name_of(trait which) noexcept;
[[nodiscard]] std::string_view name_of(finding which) noexcept;
[[nodiscard]] std::string_view name_of(memory_path which) noexcept;
[[nodiscard]] std::string_view name_of(quirk which) noexcept;
/// The action and the documented defect, in one sentence.
[[nodiscard]] std::string_view description_of(quirk which) noexcept;

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <optional>
#include <string_view>

namespace hipvmm::test::model {

/// The answers by which runtimes differ, one member for one difference. The defaults are those of
/// the strict host provider; every other runtime is a column in model_rules.cpp.
struct model_rules {
  std::string_view name = "strict";

  // -- addresses ---------------------------------------------------------------------------------
  /// The pair of HIPVMM_HOST_GRANULARITY, if the runtime has no fixed pair.
  std::optional<std::size_t> minimum_granularity = {};
  std::optional<std::size_t> recommended_granularity = {};
  /// Else reserving gives null, granularities are 0, and the other calls look at their arguments
  /// and do nothing.
  bool has_virtual_memory = true;
  hipError_t reserve_bad_size = hipErrorInvalidValue;  ///< also of a bad alignment
  bool reserve_honours_alignment = true;
  bool free_checks_size = true;
  hipError_t free_while_mapped = hipErrorInvalidValue;  ///< hipSuccess loses the addresses

  // -- chunks ------------------------------------------------------------------------------------
  hipError_t create_bad_device = hipErrorInvalidDevice;
  std::size_t create_unit = 0;  ///< of sizes, if that is not the granularity
  bool takes_uncached = false;
  bool creates_on_current_device = false;  ///< though it tells the one that was named
  /// Chunks on the host, and rights for it: to nothing, to any memory, or to memory on the host.
  enum class host_place { none, any_memory, own_memory };
  host_place host = host_place::none;
  int host_nodes = 0;  ///< of the host, each of which is a place by its number
  bool has_shareable_handles = true;
  bool imports_any_type = false;
  bool imports_to_current_device = false;  ///< as told; the chunk's own device stays the same
  bool retain_adds_reference = true;
  /// Memory stays charged until the reservations it was mapped in are freed.
  bool memory_stays_until_addresses_go = false;

  // -- mappings ----------------------------------------------------------------------------------
  /// A refusal below the arguments is reported as success, and nothing is mapped.
  bool map_hides_failure = false;
  bool maps_whole_chunks = false;  ///< any other size is not supported
  bool unmap_checks_size = true;
  bool unmap_passes_holes = false;  ///< but takes whole mappings of one reservation only
  /// One unmap over several mappings leaves the reservation busy for ever.
  bool unmap_of_several_keeps_reservation = false;

  // -- access ------------------------------------------------------------------------------------
  hipError_t access_without_link = hipErrorInvalidDevice;
  bool access_checks_location = true;     ///< its type
  bool access_applies_until_bad = false;  ///< entries before a bad one stay applied
  bool access_may_end_inside = false;     ///< the last mapping is changed whole
  /// The range is as long as the first mappings of the reservation together.
  bool access_sums_from_first = false;
  bool host_shares_rights = true;  ///< host code may touch memory that a device may
  /// Unmapping waits for work in queues, which held streams would make last for ever.
  bool unmap_waits_for_work = false;

  hipError_t disable_without_link = hipErrorPeerAccessNotEnabled;
  bool copies_cross_reservations = true;  ///< from one into its neighbour; fills and unmaps too
  bool fills_need_access = true;          ///< of a peer's hipMalloc memory
  bool fills_pinned_on_host = false;      ///< behind the stream, so a held one makes it wait
  bool frees_inside = false;              ///< by an address in memory; that of hipHostMalloc too
  bool fill_size_wraps = false;           ///< of more elements than there are bytes
  bool copy_checks_kind = true;           ///< else only of two sides that are not HIP's
  /// Of kinds that are no enumerators.
  enum class unknown_kind { refused, refused_in_streams_of_no_bytes_too, taken };
  unknown_kind unknown_kinds = unknown_kind::refused;
  bool peer_copy_checks_devices = true;  ///< else a copy by addresses, of devices that exist
  /// Enabling peer access, and copies and fills by peers, give peers rights to mapped memory:
  /// sequences on the runtime leave them out, and copies for several devices on the provider too.
  bool peer_access_grants_mappings = false;
  /// Copies of mapped memory run on another device than the stream's if memory of several is named,
  /// with that device's rights: sequences leave them out.
  bool owner_copies = false;
  /// A peer that is granted after the owner reads other bytes: sequences change no rights.
  bool late_grant_corrupts = false;

  // -- descriptors -------------------------------------------------------------------------------
  enum class convention { both, pointer, value };
  convention descriptors = convention::both;
  hipError_t foreign_descriptor = hipErrorInvalidValue;  ///< also of one that is not open
  bool null_is_descriptor_zero = false;

  /// Calls that end the process on the runtime: sequences never make them.
  struct crash_list {
    bool unknown_address_free = false;  ///< hipMemAddressFree with no reservation at the address
    bool unknown_unmap = false;         ///< hipMemUnmap with no mapping at the address
    bool unknown_retain = false;        ///< hipMemRetainAllocationHandle of an unmapped address
    bool stale_handle = false;          ///< a handle without references, or none at all
    bool null_export = false;           ///< hipMemExportToShareableHandle without a result
    bool misaligned_fill = false;       ///< of elements, at an address inside one
    bool pageable_peer_copy = false;    ///< hipMemcpyPeer of memory that is not HIP's
    bool descriptor_by_value = false;   ///< instead of the expected pointer to it
    /// A fill of a device's memory, or a copy between two, by a device without a link to them.
    bool work_without_link = false;
  };
  crash_list crashes = {};
};

/// The column of the runtime called `name` (HIPVMM_HOST_PROFILE).
/// Throws: std::invalid_argument for a name that has no column.
[[nodiscard]] const model_rules& rules_of(std::string_view name);

}  // namespace hipvmm::test::model

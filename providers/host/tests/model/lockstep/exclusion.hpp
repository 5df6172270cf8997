// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hipvmm::test::model {

/// The reasons not to make a call on AMD's runtime on the stand-in for ROCr: all but the first
/// three name the party that decides instead of the runtime. providers/host/docs/lockstep.md has
/// the same list.
enum class exclusion : std::uint8_t {
  none,
  crash,             ///< the runtime would crash or lose its state, as model_rules::crash_list says
  held_streams,      ///< a change behind queued work, or a call that waits for a held stream
  large,             ///< hipMalloc of more bytes than can be compared in time
  foreign_memory,    ///< an address at which something of another owner can be
  placement,         ///< ROCr and the system choose the addresses
  refused_free,      ///< after a refused hipMemAddressFree the runtime has dropped its record
  refused_map,       ///< reported as success; the runtime has then noted the mapping
  free_of_reserved,  ///< hipFree succeeds and drops the runtime's record of the addresses
  untyped_export,    ///< export with the type "none" of a chunk created so: ROCr exports it
  unmap_size,        ///< the runtime passes the size to ROCr unseen
  access_of_host,    ///< ROCr grants the host
  memory_of_host,    ///< ROCr allocates chunks on the host, and grants them
  access_range,      ///< the runtime passes ends inside mappings and flags to ROCr unseen
  access_order,      ///< 7.0 to 7.2 add mappings up in the order of heap addresses, which is chance
  access_link,       ///< ROCr and the kernel driver decide without a link
  peer_access,       ///< 7.2 grants mapped memory for it; the host provider does not
  work_without_link,  ///< the runtime crashes, or hardware decides: devices that have no link
  fault,              ///< a GPU would fault: hardware decides
  overlap,            ///< copies between ranges that overlap: the engine's order of work decides
};
inline constexpr std::size_t exclusions = static_cast<std::size_t>(exclusion::overlap) + 1;
using exclusion_counts = std::array<std::size_t, exclusions>;

[[nodiscard]] const char* text_of(exclusion why);

}  // namespace hipvmm::test::model

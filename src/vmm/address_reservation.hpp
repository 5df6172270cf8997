// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/vmm/address_reservation.hpp>

namespace hipvmm::detail {

/// Frees addresses whose work ended before a wait for each device with access; what fails is
/// reported.
/// - In clr 6.1 to 6.4 a stream that nobody waited for before hipStreamDestroy keeps its last
///   commands for good, and with them the record of the addresses that they used
///   (unwaited_stream in docs/guides/rocm.md). HIP takes the next reservation that starts there for
///   the old one: it maps, grants and frees in the old size. So the start of such addresses is
///   never freed. Nothing meets the old record then, because HIP looks addresses up by the closest
///   start below them.
/// - Not for addresses that a stream may have used last and nobody waited for: the look takes from
///   the record what the stream's next command releases.
void free_waited_for(address_reservation& addresses) noexcept;

/// Reserves addresses that nobody gets who asks for none in particular, for those that renew() is
/// to free for a moment: the system gives the highest that are free, or the lowest from a third of
/// the address space on, and these are below. Where they are not to be had, any others. Throws: as
/// address_reservation.
[[nodiscard]] address_reservation reserve_aside(std::size_t bytes);

enum class renewal : unsigned char {
  done,     ///< freed, and reserved again
  refused,  ///< HIP did not free them: all stays
  lost,     ///< freed, and others got them before they were reserved again
};

/// Frees the addresses, whose memory then returns where only that returns it, and reserves the same
/// again. `addresses` is empty where they are lost. What HIP refuses is reported.
/// Pre: nothing is mapped in them, and all work that used them was waited for.
[[nodiscard]] renewal renew(address_reservation& addresses) noexcept;

}  // namespace hipvmm::detail

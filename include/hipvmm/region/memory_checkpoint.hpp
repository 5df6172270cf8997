// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm {

/// Memory of another process, at the addresses that it had there.
struct memory_checkpoint {
  /// One for each region, vector, pool and arena that carried the tag, in the order in which they
  /// were made: its addresses, and the chunks that held contents.
  std::vector<region> regions;
  /// The bytes that the program gave, such as the names, types and addresses of its arrays.
  std::string notes;
};

/// Writes all memory that carries the tag, and `notes`, into the file `path`, which
/// load_checkpoint() reads in another process. Returns the bytes of contents.
/// - The tag stays awake, and the memory as it is. As suspend() does, it releases idle memory of
///   pools and arenas, and requests to them during the call throw std::logic_error.
/// - Waits for all work of every device with access, or for `stream` alone, behind which all work
///   that uses the memory is ordered.
/// - The file is for this user alone. It gets its name, in place of any other file or symbolic link
///   of that name, when it is complete and on the disk; until then it is path.XXXXXX. A killed
///   process leaves that file. Contents go through 64 MiB of pinned memory.
/// - No handle is in the file: see docs/reference/sleep.md.
/// Pre: no other thread uses the memory that carries the tag, nor its regions, during the call.
/// Throws (then nothing has changed and there is no new file; but if the last step fails, the flush
/// of the folder, with std::system_error, the file is there): std::logic_error while
/// the tag sleeps; std::invalid_argument in a stream that is being captured, if a chunk that moved
/// has two addresses, or if a chunk's device may not read it; unsupported if several slots
/// share memory, or the tag has memory of several devices; std::system_error, also if the disk is
/// full or a file of the process may not be so long (ulimit -f), before anything is copied;
/// out_of_memory; hip_error.
std::size_t save_checkpoint(const memory_tag& tag, const std::string& path,
                            std::string_view notes = {}, std::optional<stream_ref> stream = {});

/// Backs the same addresses by new memory of `device`, with the rights, placement and tag of
/// `options`, and fills it. Returns when all is there.
/// - Other code of the process takes some of the addresses sooner or later: load first, and start
///   the process again if they are taken.
/// - HIP must honour the address that hipMemAddressReserve is asked for; some releases do not.
/// - The file has checksums of its head and of its contents.
/// Throws (then nothing stays reserved): std::system_error, also for a symbolic link;
/// std::invalid_argument if the file is of another user, one that others may write, no checkpoint,
/// of another version, damaged, too short or too long, or of a device of another name or
/// granularity, and if `options` give `device` no read_write; out_of_memory, which names the
/// addresses, with exhausted::addresses if HIP gives others; as region and region::commit().
[[nodiscard]] memory_checkpoint load_checkpoint(const std::string& path, device_ref device,
                                                const region_options& options = {});

}  // namespace hipvmm

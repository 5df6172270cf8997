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
  /// For each object that carried the tag, in the order in which they were made: its addresses, and
  /// the chunks that held contents.
  std::vector<region> regions;
  /// Of the program, such as names, types and addresses of arrays.
  std::string notes;
};

/// Writes all memory that carries the tag, and `notes`, into the file `path`. Returns the bytes of
/// contents. Waits for all work of every device with access, or for `stream` alone, in which all
/// work that uses the memory is ordered before the call.
/// - The tag stays awake. As suspend() does, the call releases idle memory of pools and arenas, and
///   requests to them throw std::logic_error meanwhile.
/// - The file is for this user alone. It replaces any file or symbolic link of that name when it is
///   complete and on the disk; until then it is path.XXXXXX, which a killed process leaves. It has
///   no handles (docs/reference/sleep.md). Contents go through 64 MiB of pinned memory.
/// Pre: no other thread uses the memory that carries the tag, nor its regions, during the call.
/// Throws (nothing has changed, except if the flush of the folder, the last step, fails: then the
/// file is there): std::logic_error while the tag sleeps; std::invalid_argument while `stream` is
/// captured, if a chunk that moved has two addresses, or if a chunk's device may not read it;
/// unsupported if several slots share memory, or the tag has memory of several devices;
/// std::system_error (a full disk, and a limit on the length of the process's files (ulimit -f),
/// are found before anything is copied); out_of_memory; hip_error.
std::size_t save_checkpoint(const memory_tag& tag, const std::string& path,
                            std::string_view notes = {}, std::optional<stream_ref> stream = {});

/// Backs the addresses of a checkpoint by new memory of `device`, with the rights, placement and
/// tag of `options`, and fills it. Returns when all is there. Load first, because other code of the
/// process takes some of the addresses sooner or later, and start the process again if they are
/// taken. Some releases of HIP ignore the address that hipMemAddressReserve is asked for.
/// Throws (nothing stays reserved): std::system_error, also for a symbolic link;
/// std::invalid_argument if the file is of another user, one that others may write, no checkpoint,
/// of another version, damaged (it has checksums), too short or too long, or of a device of another
/// name or granularity, and if `options` give `device` no read_write; out_of_memory, which names
/// the addresses, with exhausted::addresses if HIP gives others; as region and region::commit().
[[nodiscard]] memory_checkpoint load_checkpoint(const std::string& path, device_ref device,
                                                const region_options& options = {});

}  // namespace hipvmm

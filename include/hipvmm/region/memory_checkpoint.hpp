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
  /// One for each object of the tag, in the order of construction, with all chunks with contents.
  std::vector<region> regions;
  std::string notes;  ///< from save_checkpoint()
};

/// Writes all memory of the tag, and `notes`, to the file `path`. Returns the bytes of contents.
/// Waits for all work of every device with access, or only for `stream`, which then must order all
/// work on the memory before this call.
/// - The tag stays awake. Idle memory of pools and arenas is released, and requests to them throw
///   std::logic_error during the call.
/// - Only this user may read the file. Once it is on the disk it replaces any file or symbolic link
///   named `path`. Before that it is path.XXXXXX, which a killed process leaves. Contents go
///   through 64 MiB of pinned memory.
/// Pre: no other thread uses memory or regions of the tag during the call.
/// Throws: std::logic_error while the tag sleeps; std::invalid_argument while `stream` is captured,
/// if a chunk that moved has two addresses, or if a chunk's device may not read it; unsupported if
/// several slots share memory, or the tag has memory of several devices; std::system_error, for a
/// full disk or a limit on file sizes (ulimit -f) before anything is copied; out_of_memory;
/// hip_error. Then nothing has changed; the file is there if only the flush of its folder failed.
std::size_t save_checkpoint(const memory_tag& tag, const std::string& path,
                            std::string_view notes = {}, std::optional<stream_ref> stream = {});

/// Backs the addresses of a checkpoint by new memory of `device`, with the rights, placement and
/// tag of `options`, and waits until the contents are there. Load early: other code of the process
/// may take the addresses, and then only a new process helps. Some releases of HIP ignore the
/// address that hipMemAddressReserve is asked for.
/// Throws (nothing stays reserved): std::system_error, also for a symbolic link;
/// std::invalid_argument if the file belongs to another user, may be written by others, is no
/// intact checkpoint of this version, or is of a device with another name or granularity, and if
/// `options` give `device` no read_write; out_of_memory, with exhausted::addresses if HIP gives
/// other addresses; as region and region::commit().
[[nodiscard]] memory_checkpoint load_checkpoint(const std::string& path, device_ref device,
                                                const region_options& options = {});

}  // namespace hipvmm

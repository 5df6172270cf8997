// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>

#include <hipvmm/mr/pool_reuse.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include <hipvmm/vmm/access.hpp>
#include <hipvmm/vmm/memory_registrar.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm::mr {

struct pool_options {
  /// Bytes held from the start; rounded up to whole granules (region::granularity).
  std::size_t initial_bytes = 0;
  /// Limit of the memory held, in bytes, rounded down to whole granules; zero: the device's memory,
  /// which on an APU includes what is free there when the pool is made.
  std::size_t maximum_bytes = 0;
  /// A thread of the library releases idle memory beyond this many bytes to the device soon. Where
  /// quirk::re_reserve is in force, it does so only once the whole pool is idle.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// Whether the pool's chunks can be exported to other processes: vmm_pool_resource::export_block.
  handle_type shareable = handle_type::none;
  /// The rights to all memory of the pool from the start; none but its device's by default.
  access_list access = {};
  /// What to do where capability::path() is memory_path::fallback; or to have slabs of hipMalloc
  /// everywhere, for legacy IPC.
  without_vmm fallback = without_vmm::use_hip_malloc;
  /// Most bytes of a new chunk, rounded down to whole granules, at least one; zero: as the pool
  /// chooses. Only a chunk that is idle as a whole can serve a request elsewhere. So small chunks
  /// hold less memory for requests whose sizes change, and cost more calls of HIP. Chunks are
  /// larger all the same where there would be too many of them for the process's file descriptors.
  /// No effect where all chunks are of one size, or the memory is of hipMalloc.
  std::size_t largest_chunk = 0;
  /// Whether the program calls forget_stream() before it destroys a stream that is no
  /// hipvmm::stream. Matters on CUDA, where the handle of a stream that was destroyed must not be
  /// used. Unless it is true, each deallocation in such a stream records an event there as soon as
  /// another stream has needed its memory, because the stream may be gone afterwards. Where it is
  /// true and a stream is destroyed without the call, CUDA's driver may crash. No effect on AMD,
  /// whose HIP refuses such handles.
  bool forgets_streams = false;
  /// What chunks are made of, as region_options::memory. Uncached memory needs
  /// trait::uncached_chunks, and is for flags and counters that kernels running at the same time
  /// share: a pool of its own. Where there is neither the trait nor virtual memory, the pool is
  /// unsupported.
  chunk_memory memory = chunk_memory::standard;
  /// The tag by which suspend() gives the pool's memory back and resume() makes it again, at the
  /// addresses of all blocks. Where there is no virtual memory the pool is unsupported.
  /// - suspend() waits for all work that uses freed memory too, releases what is free, and keeps
  /// the
  ///   contents of blocks alone. Where quirk::re_reserve is in force, free memory of a pool that
  ///   has blocks sleeps and wakes too.
  /// - While it sleeps, memory may be deallocated, and a request throws std::logic_error; so does
  ///   what changes rights or exports chunks. Trims release nothing.
  /// - Beside what suspend() refuses for regions: chunks that moved, while their old addresses are
  ///   still used by work of a capture or refused to be unmapped.
  std::optional<memory_tag> tag = {};
  /// Who registers the pool's chunks, as region_options::registrar. Where there is no virtual
  /// memory the pool is unsupported.
  std::shared_ptr<memory_registrar> registrar = {};
};

}  // namespace hipvmm::mr

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

/// HIPVMM_CONF has defaults for pools of the C interface and the preload only.
struct pool_options {
  /// Bytes held from the start; rounded up to whole granules (region::granularity).
  std::size_t initial_bytes = 0;
  /// When other objects of the process lack memory and take the pool's idle memory, the pool keeps
  /// this many bytes, or `initial_bytes` if that is more.
  std::size_t floor_bytes = 0;
  /// Idle memory of pools and arenas of a lower priority is released first.
  int priority = 0;
  /// Limit of the memory held, in bytes, rounded down to whole granules; zero: the device's memory
  /// (of an APU its free memory when the pool is made, if that is more). The limit in force,
  /// vmm_pool_resource::maximum_bytes(), is lower if the device has less memory or the process too
  /// few addresses.
  std::size_t maximum_bytes = 0;
  /// A thread of the library soon releases idle memory beyond this many bytes to the device. If
  /// memory returns only with its addresses (docs/reference/capability.md), it does so only when
  /// the whole pool is idle.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  /// The handle type for exports to other processes; none: no export.
  handle_type shareable = handle_type::none;
  /// The rights from the start; by default the pool's device alone has one.
  access_list access = {};
  /// The behaviour if capability::path() is memory_path::fallback; or slabs of hipMalloc on every
  /// device, for legacy IPC.
  without_vmm fallback = without_vmm::use_hip_malloc;
  /// Most bytes of a new chunk, rounded down to whole granules, at least one; zero: the pool's own
  /// rule, 2 to 256 MiB by the memory held.
  /// - Only a wholly idle chunk serves a request elsewhere or returns to the device. So small
  ///   chunks hold less memory for requests of changing sizes, and cost more calls of HIP.
  /// - If a device takes chunks of one size only, that is a power of two up to this.
  /// - Chunks exceed this limit if smaller ones would exhaust the process's file descriptors. A
  ///   slab of hipMalloc holds a whole request of any size.
  std::size_t largest_chunk = 0;
  /// True: the program calls forget_stream() before it destroys a stream that is no hipvmm::stream.
  /// CUDA allows no call with the handle of a destroyed stream: its driver may crash if the program
  /// omits forget_stream().
  /// False: once another stream has needed memory of such a stream, each deallocation in it records
  /// an event there, because the stream may be destroyed afterwards.
  /// No effect on AMD, because its HIP refuses such handles.
  bool forgets_streams = false;
  /// As region_options::memory. Use a pool of uncached memory for flags and counters that
  /// concurrent kernels share. Such a pool is unsupported if the release makes no such chunks, or
  /// without virtual memory.
  chunk_memory memory = chunk_memory::standard;
  /// The tag by which suspend() releases the pool's memory and resume() allocates it again, at the
  /// addresses of all blocks. Unsupported without virtual memory.
  /// - suspend() waits also for work that uses freed memory, releases free memory, and keeps the
  ///   contents of blocks only. If memory returns only with its addresses, free memory of a pool
  ///   that has blocks sleeps and wakes too.
  /// - While it sleeps, memory may be deallocated; requests, changes of rights and exports throw
  ///   std::logic_error. Trims release nothing.
  /// - suspend() also refuses chunks that moved, if a capture still uses their old addresses or HIP
  ///   refused to unmap them.
  std::optional<memory_tag> tag = {};
  /// As region_options::registrar. Unsupported without virtual memory.
  std::shared_ptr<memory_registrar> registrar = {};
};

}  // namespace hipvmm::mr

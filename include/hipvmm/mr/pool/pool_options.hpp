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
  /// Bytes that the pool keeps if others take its idle memory; at least `initial_bytes`.
  std::size_t floor_bytes = 0;
  /// Idle memory of pools and arenas of a lower priority is released first.
  int priority = 0;
  /// Limit of the memory held, in bytes, rounded down to whole granules; zero: the device's memory
  /// (of an APU its free memory when the pool is made, if that is more). maximum_bytes() is lower
  /// if the device has less memory or the process too few addresses.
  std::size_t maximum_bytes = 0;
  /// A thread of the library soon releases idle memory beyond this many bytes to the device. If
  /// memory returns only with its addresses (docs/reference/capability.md), it does so only when
  /// the whole pool is idle.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  pool_reuse reuse{};
  handle_type shareable = handle_type::none;
  /// By default the pool's device alone has a right.
  access_list access = {};
  /// The behaviour without virtual memory; without_vmm::always: slabs of hipMalloc on each device,
  /// for legacy IPC.
  without_vmm fallback = without_vmm::use_hip_malloc;
  /// Most bytes of a new chunk, rounded down to whole granules, at least one. Zero: 2 to 256 MiB,
  /// by the memory held.
  /// - Only a wholly idle chunk serves a request elsewhere or returns to the device. Small chunks
  ///   save memory if the sizes of requests change, and cost more calls of HIP.
  /// - If a device takes chunks of one size only, the size is a power of two up to this.
  /// - Chunks exceed this limit if smaller ones would exhaust the process's file descriptors. A
  ///   slab of hipMalloc holds a whole request of any size.
  std::size_t largest_chunk = 0;
  /// True: the program calls forget_stream() before it destroys a stream that is no hipvmm::stream.
  /// Otherwise CUDA's driver may crash, because the pool may name the destroyed stream.
  /// False: once another stream has needed memory of such a stream, each deallocation in it records
  /// an event. No effect on AMD, because its HIP refuses handles of destroyed streams.
  bool forgets_streams = false;
  /// As region_options::memory; chunk_memory::uncached for flags and counters that concurrent
  /// kernels share. Unsupported if the release makes no such chunks, or without virtual memory.
  chunk_memory memory = chunk_memory::standard;
  /// The tag by which suspend() releases the pool's memory and resume() allocates it again, at the
  /// addresses of all blocks. Unsupported without virtual memory.
  /// - suspend() keeps the contents of blocks only. It waits for work on freed memory, which it
  ///   releases. If memory returns only with its addresses and there are blocks, freed memory
  ///   sleeps too.
  /// - While it sleeps, memory may be deallocated; requests, changes of rights and exports throw
  ///   std::logic_error. Trims release nothing.
  /// - suspend() throws while a moved chunk has an old address that a capture uses, or that HIP
  ///   refused to unmap.
  std::optional<memory_tag> tag = {};
  /// As region_options::registrar. Unsupported without virtual memory.
  std::shared_ptr<memory_registrar> registrar = {};
};

}  // namespace hipvmm::mr

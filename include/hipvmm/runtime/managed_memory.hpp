// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>  // IWYU pragma: export
#include <hipvmm/runtime/memory_location.hpp>
#include <hipvmm/runtime/stream.hpp>

// Managed memory: HIP moves it between the host and devices (hipMallocManaged,
// mr::managed_resource). Any thread may call all functions.
// - A range is within one allocation, or any memory if devices can access all host memory
//   (device_ref::supports_pageable_access).
// - HIP works on whole host pages: a range that ends within a page includes that page.
// - Without HMM, AMD accepts advice and prefetches and ignores them.
// Throws, unless a function says otherwise: std::invalid_argument for a range that is not managed
// memory, or for a device that does not exist; unsupported if HIP lacks the function; hip_error.
namespace hipvmm {

/// Prefetches the range to `where` in the order of `stream`. Does nothing for zero bytes.
/// Throws: as above; unsupported for memory that HIP does not move (pageable, without XNACK), and
/// unless the device of `stream`, and of `where`, supports_concurrent_managed_access().
void prefetch_async(stream_ref stream, const void* pointer, std::size_t bytes,
                    memory_location where);

enum class range_advice {
  set_read_mostly,           ///< locations that read it get copies of their own
  unset_read_mostly,         ///< locations lose these copies
  unset_preferred_location,  ///< the range stays at its place of use
  set_coarse_grain,          ///< coherent between kernels only, and faster; AMD
  unset_coarse_grain,        ///< coherent at all times; AMD
};
void advise(const void* pointer, std::size_t bytes, range_advice advice);

/// Throws: as above; unsupported for a device unless it supports_concurrent_managed_access().
enum class location_advice {
  set_preferred_location,  ///< the range stays there unless it must move
  set_accessed_by,         ///< the location accesses the range without faults, wherever it is
  unset_accessed_by,
};
void advise(const void* pointer, std::size_t bytes, location_advice advice, memory_location where);

/// When writes to memory become visible (AMD).
enum class memory_coherency {
  fine_grained,    ///< at all times
  coarse_grained,  ///< between kernels
  mixed,           ///< it differs within the range
};

struct range_attributes {
  bool read_mostly;
  /// Empty if none was set, or if it differs between pages.
  std::optional<memory_location> preferred_location;
  /// Target of the last prefetch, done or not; empty as above.
  std::optional<memory_location> last_prefetch_location;
  /// On AMD all devices from the start.
  std::vector<memory_location> accessed_by;
};
[[nodiscard]] range_attributes attributes_of_range(const void* pointer, std::size_t bytes);
[[nodiscard]] bool is_read_mostly(const void* pointer, std::size_t bytes);
[[nodiscard]] std::optional<memory_location> preferred_location(const void* pointer,
                                                                std::size_t bytes);
[[nodiscard]] std::optional<memory_location> last_prefetch_location(const void* pointer,
                                                                    std::size_t bytes);
[[nodiscard]] std::vector<memory_location> accessed_by(const void* pointer, std::size_t bytes);
/// Throws: unsupported on CUDA.
[[nodiscard]] memory_coherency coherency_of(const void* pointer, std::size_t bytes);

/// Takes effect only if the host and devices cannot use managed memory at the same time
/// (device_ref::supports_concurrent_managed_access), and never on AMD.
enum class attachment {
  global,  ///< all devices
  host,    ///< the host alone
  single,  ///< one stream and the host
};

/// Attaches the allocation that begins at `pointer`, in the order of `stream`.
/// Throws: as above; std::invalid_argument for `single` with the legacy default stream.
void attach_async(stream_ref stream, void* pointer, attachment to);
/// Attaches `bytes` bytes of memory that no function of HIP allocated, such as malloc's, for a
/// stream of a device with supports_pageable_access(); or a whole managed allocation.
/// Throws: as above; std::invalid_argument for zero bytes.
void attach_async(stream_ref stream, void* pointer, std::size_t bytes, attachment to);

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>

// What HIP offers for memory that it moves between the host and devices by itself
// (hipMallocManaged; mr::managed_resource gives it). Ranges lie within one allocation; where the
// hardware reaches all memory of the host (device_ref::supports_pageable_access) they may be any
// memory. HIP works by whole pages of the host: a range that ends within one takes it along. All
// functions may be called by any thread. Where nothing else is said they throw
// std::invalid_argument for a range that is none of managed memory, or for a device that does not
// exist; unsupported where HIP has no such thing; hip_error. Without HMM, AMD takes advice and
// prefetches and does nothing.
namespace hipvmm {

/// A device, or the host: where managed memory may be.
class memory_location {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a device is a location
  constexpr memory_location(device_ref device) noexcept : device_{device} {}
  [[nodiscard]] static constexpr memory_location host() noexcept { return {}; }

  [[nodiscard]] constexpr bool is_host() const noexcept { return !device_.has_value(); }
  /// Nothing for the host.
  [[nodiscard]] constexpr std::optional<device_ref> device() const noexcept { return device_; }

  friend constexpr bool operator==(memory_location a, memory_location b) noexcept {
    return a.device_ == b.device_;
  }
  friend constexpr bool operator!=(memory_location a, memory_location b) noexcept {
    return !(a == b);
  }

 private:
  constexpr memory_location() noexcept = default;
  std::optional<device_ref> device_;
};

/// Moves the range to `where` in the order of `stream`, ahead of its use. Nothing for no bytes.
/// Throws: as above; unsupported for memory that HIP does not move (pageable, without XNACK), and
/// unless the device of `stream`, and of `where`, supports_concurrent_managed_access().
void prefetch_async(stream_ref stream, const void* pointer, std::size_t bytes,
                    memory_location where);

/// Advice about a range as a whole (hipMemAdvise).
enum class range_advice {
  set_read_mostly,           ///< places that read it get copies of their own
  unset_read_mostly,         ///< and lose them
  unset_preferred_location,  ///< it stays where it is used
  set_coarse_grain,          ///< coherent between kernels only, and faster; AMD
  unset_coarse_grain,        ///< coherent at all times; AMD
};
void advise(const void* pointer, std::size_t bytes, range_advice advice);

/// Advice about a range and a place (hipMemAdvise). Throws: as above; unsupported for a device
/// unless it supports_concurrent_managed_access().
enum class location_advice {
  set_preferred_location,  ///< it stays there unless it must move
  set_accessed_by,         ///< the place is to reach it without faults, wherever it is
  unset_accessed_by,
};
void advise(const void* pointer, std::size_t bytes, location_advice advice, memory_location where);

/// How writes to memory become visible (AMD).
enum class memory_coherency {
  fine_grained,    ///< at all times
  coarse_grained,  ///< between kernels
  mixed,           ///< it differs within the range
};

/// What holds for all of a range.
struct range_attributes {
  bool read_mostly;
  /// Nothing where none was set, or not the same for all pages.
  std::optional<memory_location> preferred_location;
  /// Where it was last to be moved, done or not; nothing as above.
  std::optional<memory_location> last_prefetch_location;
  /// AMD names all devices from the start.
  std::vector<memory_location> accessed_by;
};
/// All of them in one call (hipMemRangeGetAttributes), or one (hipMemRangeGetAttribute).
[[nodiscard]] range_attributes attributes_of_range(const void* pointer, std::size_t bytes);
[[nodiscard]] bool is_read_mostly(const void* pointer, std::size_t bytes);
[[nodiscard]] std::optional<memory_location> preferred_location(const void* pointer,
                                                                std::size_t bytes);
[[nodiscard]] std::optional<memory_location> last_prefetch_location(const void* pointer,
                                                                    std::size_t bytes);
[[nodiscard]] std::vector<memory_location> accessed_by(const void* pointer, std::size_t bytes);
/// Throws: unsupported on CUDA.
[[nodiscard]] memory_coherency coherency_of(const void* pointer, std::size_t bytes);

/// Who may use an allocation of managed memory where the host and devices cannot use it at the same
/// time (device_ref::supports_concurrent_managed_access); elsewhere, and on AMD, it means nothing.
enum class attachment {
  global,  ///< all devices
  host,    ///< the host alone
  single,  ///< one stream and the host
};

/// Attaches the allocation that begins at `pointer` in the order of `stream`.
/// Throws: as above; std::invalid_argument for `single` with the legacy default stream.
void attach_async(stream_ref stream, void* pointer, attachment to);

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

namespace hipvmm::host_provider {

using address = std::uintptr_t;
/// One bit per device.
using device_set = std::uint64_t;

constexpr device_set only(int device) noexcept { return device_set{1} << device; }

enum class right { read, write };

inline address address_of(const void* pointer) noexcept {
  return reinterpret_cast<address>(pointer);
}

inline void* pointer_to(address at) noexcept {
  return reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
}

/// Memory by the rules of copies.
enum class memory_class {
  pageable,  ///< host memory the provider knows nothing of
  pinned,    ///< hipHostMalloc, hipHostRegister or hipMallocManaged: at home on both sides
  device,    ///< hipMalloc, memory of a pool, or any address inside a reservation
};

struct access_request {
  right needed;
  int device;
  /// Owners whose hipMalloc memory the device may use: all in a copy, which the runtime stages;
  /// otherwise itself and the peers that it enabled.
  device_set owners;
};

/// A change of some devices' rights to a range; devices in neither set keep theirs.
struct access_change {
  device_set named = 0;
  device_set readers = 0;
  device_set writers = 0;
  std::optional<int> host = std::nullopt;  // PROT_ bits

  /// The later change wins if both name a device.
  void then(const access_change& later) noexcept {
    named |= later.named;
    readers = (readers & ~later.named) | later.readers;
    writers = (writers & ~later.named) | later.writers;
    if (later.host) host = later.host;
  }
};

}  // namespace hipvmm::host_provider

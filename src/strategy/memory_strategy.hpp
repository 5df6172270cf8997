// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include "strategy/call_prices.hpp"
#include "strategy/rights_setting.hpp"

namespace hipvmm::detail {

/// Something that all devices asked can do; or the first that cannot, and the reason.
class ability {
 public:
  ability() noexcept = default;
  /// `lack` continues the sentence that begins with the device.
  ability(device_ref without, const char* lack, const std::string& reason) noexcept
      : without_{without}, lack_{lack}, reason_{&reason} {}

  explicit operator bool() const noexcept { return reason_ == nullptr; }
  /// Pre: a device cannot do it.
  [[nodiscard]] const std::string& reason() const noexcept { return *reason_; }
  /// Throws: unsupported unless all can, with "`what`: device N <lack>: <reason><advice>".
  void require(const char* what, const char* advice = "") const;

 private:
  device_ref without_{0};
  const char* lack_ = "";
  const std::string* reason_ = nullptr;
};

/// Facts for code that uses device memory: the strictest answer in the records of the devices that
/// own chunks. A later probe does not change them.
class memory_strategy {
 public:
  using record_list = std::vector<std::pair<device_ref, capability>>;

  /// Pre: there is a record. The first is of the device that may have chunks on the host.
  explicit memory_strategy(record_list owners);
  /// Throws: as capability_of().
  explicit memory_strategy(device_ref owner);
  memory_strategy& operator=(memory_strategy&&) = delete;

  [[nodiscard]] const record_list& owners() const noexcept { return owners_; }
  [[nodiscard]] bool has(device_ref owner) const noexcept;
  [[nodiscard]] bool pins(device_ref owner) const noexcept;  ///< pins_memory, for one device
  /// Whether one call may unmap neighbouring chunks of `owner`.
  [[nodiscard]] bool unmaps_runs(device_ref owner) const noexcept;

 private:
  const record_list owners_;  // first: the members below refer to it

 public:
  /// Released memory returns to the device only when the addresses it was mapped in are freed.
  const bool pins_memory;
  const ability returns_memory;  ///< at once or as pins_memory says

  const rights_setting rights;

  const map_check mapping_check;
  const std::chrono::nanoseconds visible_after;  ///< work may miss a mapping that is younger

  const ability second_address;  ///< a chunk may be used at two addresses
  const bool extends_in_place;   ///< copies may span two reservations

  const ability host_chunks;       ///< of the first owner
  const ability host_node_chunks;  ///< of the first owner
  const ability uncached_chunks;
  const ability retained_chunks;            ///< HIP gives a reference to a chunk by its address
  const std::size_t descriptors_per_chunk;  ///< of the first owner; 0 if none, or not known

  const bool host_reads;      ///< the host reads all that a device may
  const ability peer_copies;  ///< a copy from a peer needs no right of that peer to the target
  const bool hip_pools_keep_order;  ///< of streams; and frees do not block the host

  const call_prices prices;
};

}  // namespace hipvmm::detail

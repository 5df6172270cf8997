// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>

namespace hipvmm {

/// On which device a region makes the chunks that growth adds, by their offset.
/// region_options::placement. An immutable value: a copy neither allocates nor throws.
class chunk_placement {
 public:
  /// All chunks on the region's device.
  chunk_placement() noexcept = default;
  [[nodiscard]] static chunk_placement one_device() noexcept { return {}; }

  /// Stripes of `stripe_bytes` bytes on the devices in turn: the chunk at offset o is memory of
  /// devices[(o / stripe_bytes) % devices.size()]. No chunk reaches across the end of a stripe. A
  /// device that is named twice gets two stripes of each turn.
  /// Throws: std::invalid_argument if there are no devices or no such device, or `stripe_bytes`
  /// is zero or no multiple of every device's granularity; unsupported for a device without virtual
  /// memory.
  [[nodiscard]] static chunk_placement striped(std::vector<device_ref> devices,
                                               std::size_t stripe_bytes);

  /// On the region's device until it holds `device_budget_bytes` bytes of it, then in memory of the
  /// host. Released memory of the device can be used again; nothing moves by itself, see
  /// region::move_range(). Kernels reach memory of the host over the bus. If chunks cannot be
  /// there, the region is unsupported.
  /// - `beyond` may be one NUMA node, memory_location::host_node(), if the release places chunks
  ///   so: the one next to the device, or one with fast free memory.
  /// Throws: std::invalid_argument if `beyond` is a device.
  [[nodiscard]] static chunk_placement spill(std::size_t device_budget_bytes,
                                             memory_location beyond = memory_location::host());

  [[nodiscard]] bool is_one_device() const noexcept { return devices_ == nullptr && !budget_; }
  [[nodiscard]] bool is_striped() const noexcept { return devices_ != nullptr; }
  /// The devices of the stripes, in their order; empty unless is_striped().
  [[nodiscard]] const std::vector<device_ref>& devices() const noexcept;
  /// Bytes of one stripe; zero unless is_striped().
  [[nodiscard]] std::size_t stripe_bytes() const noexcept { return stripe_bytes_; }
  /// The bytes of the device beyond which chunks are memory of the host; empty unless spill().
  [[nodiscard]] std::optional<std::size_t> budget_bytes() const noexcept { return budget_; }
  /// The place of chunks beyond the budget; the host unless spill() named a node.
  [[nodiscard]] memory_location beyond_budget() const noexcept { return beyond_; }

 private:
  std::shared_ptr<const std::vector<device_ref>> devices_;  // null unless striped
  std::size_t stripe_bytes_ = 0;
  std::optional<std::size_t> budget_;
  memory_location beyond_ = memory_location::host();
};

}  // namespace hipvmm

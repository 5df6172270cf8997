// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>

namespace hipvmm {

/// Decides where a region creates the chunks that growth adds, by their offset. A copy neither
/// allocates nor throws.
class chunk_placement {
 public:
  chunk_placement() noexcept = default;
  [[nodiscard]] static chunk_placement one_device() noexcept { return {}; }

  /// The chunk at offset o is memory of devices[(o / stripe_bytes) % devices.size()] and crosses no
  /// end of a stripe. Throws: std::invalid_argument without devices, for a missing device, and
  /// unless `stripe_bytes` is a multiple of every device's granularity and not zero; unsupported
  /// for a device without virtual memory.
  [[nodiscard]] static chunk_placement striped(std::vector<device_ref> devices,
                                               std::size_t stripe_bytes);

  /// The region's device until the region holds `device_budget_bytes` bytes of it, then memory of
  /// the host, which kernels reach over the bus. Later chunks use the device again if the region
  /// has released some of it; nothing moves by itself, see region::move_range(). `beyond` may be
  /// one NUMA node (memory_location::host_node()). The region throws unsupported if HIP makes no
  /// chunks in `beyond`. Throws: std::invalid_argument if `beyond` is a device.
  [[nodiscard]] static chunk_placement spill(std::size_t device_budget_bytes,
                                             memory_location beyond = memory_location::host());

  [[nodiscard]] bool is_one_device() const noexcept { return devices_ == nullptr && !budget_; }
  [[nodiscard]] bool is_striped() const noexcept { return devices_ != nullptr; }
  /// These two are empty and zero unless is_striped(). The next two are empty and the host unless
  /// spill() made the placement.
  [[nodiscard]] const std::vector<device_ref>& devices() const noexcept;
  [[nodiscard]] std::size_t stripe_bytes() const noexcept { return stripe_bytes_; }
  [[nodiscard]] std::optional<std::size_t> budget_bytes() const noexcept { return budget_; }
  [[nodiscard]] memory_location beyond_budget() const noexcept { return beyond_; }

 private:
  std::shared_ptr<const std::vector<device_ref>> devices_;  // null unless striped
  std::size_t stripe_bytes_ = 0;
  std::optional<std::size_t> budget_;
  memory_location beyond_ = memory_location::host();
};

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/core/device.hpp>

namespace hipvmm {

/// What a device may do with mapped bytes.
enum class access_right { none, read, read_write };

/// One device's right; our form of hipMemAccessDesc.
struct access_desc {
  device_ref device;
  access_right right;

  friend bool operator==(const access_desc& a, const access_desc& b) noexcept {
    return a.device == b.device && a.right == b.right;
  }
};

/// The rights of every device over memory of one owner device: what is to hold, kept so that it can
/// be applied to each new mapping. A plain value: changing it touches no memory until applied.
/// The owner starts with read_write, every other device with none.
class access_map {
 public:
  explicit access_map(device_ref owner);

  /// Records `right` for `device`.
  /// Throws: std::invalid_argument when there is no such device; unsupported, naming both devices,
  /// when `device` cannot reach the owner's memory and `right` is not none.
  void set(device_ref device, access_right right);
  /// The right recorded for `device`; none for a device never named.
  [[nodiscard]] access_right get(device_ref device) const noexcept;

  [[nodiscard]] device_ref owner() const noexcept { return owner_; }
  /// Every device whose right is not none, ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept { return entries_; }

  /// Applies all recorded rights to the mapped bytes [address, address + bytes).
  /// Pre: the range is exactly one mapping, freshly made: devices not recorded have no access yet.
  void apply(void* address, std::size_t bytes) const;

 private:
  device_ref owner_;
  std::vector<access_desc> entries_;
};

/// Sets one device's right over the mapped bytes [address, address + bytes), a whole mapping;
/// other devices keep theirs (HIP merges per device).
void set_access(void* address, std::size_t bytes, access_desc desc);

/// The right `device` has at `address` according to HIP. Throws: hip_error when nothing is mapped.
[[nodiscard]] access_right get_access(const void* address, device_ref device);

}  // namespace hipvmm

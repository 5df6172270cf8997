// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// What a device may do with mapped bytes.
enum class access_right { none, read, read_write };

/// One device's right; the counterpart of hipMemAccessDesc.
struct access_desc {
  device_ref device;
  access_right right;

  friend bool operator==(const access_desc& a, const access_desc& b) noexcept {
    return a.device == b.device && a.right == b.right;
  }
};

/// The rights of every device to memory of one owner device, kept to be applied to each new
/// mapping.
/// - A plain value: changing it changes no mapping until applied.
/// - The owner starts with read_write, every other device with none.
class access_map {
 public:
  explicit access_map(device_ref owner);

  /// Sets the right of `device` in this map.
  /// Throws: std::invalid_argument when there is no such device; unsupported, naming both devices,
  /// when `device` cannot access the owner's memory and `right` is not none.
  void set(device_ref device, access_right right);
  /// The right of `device` in this map; none for a device never set.
  [[nodiscard]] access_right get(device_ref device) const noexcept;

  [[nodiscard]] device_ref owner() const noexcept { return owner_; }
  /// Every device whose right is not none, ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept { return entries_; }

  /// Applies all rights of this map to the mapped bytes [address, address + bytes).
  /// Pre: the range is exactly one new mapping: devices not in the map have no access yet.
  void apply(void* address, std::size_t bytes) const;

 private:
  device_ref owner_;
  std::vector<access_desc> entries_;
};

/// Sets one device's right to the mapped bytes [address, address + bytes), which are a whole
/// mapping. Other devices keep theirs (HIP merges per device).
void set_access(void* address, std::size_t bytes, access_desc desc);

/// Returns the right of `device` at `address` according to HIP.
/// Throws: hip_error when nothing is mapped.
[[nodiscard]] access_right get_access(const void* address, device_ref device);

}  // namespace hipvmm

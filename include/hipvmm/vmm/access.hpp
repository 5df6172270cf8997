// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

enum class access_right { none, read, read_write };

struct access_desc {
  device_ref device;
  access_right right;

  friend bool operator==(const access_desc& a, const access_desc& b) noexcept {
    return a.device == b.device && a.right == b.right;
  }
};

/// The rights that a program requests, at most one entry for each device.
/// - A device without an entry gets the default: the memory's owner read_write, any other none.
/// - A copy neither allocates nor throws.
/// - The host has no entry: see host_access in docs/reference/capability.md.
class access_list {
 public:
  access_list() noexcept = default;
  /// Throws: std::invalid_argument for a device listed twice. The list's use checks the devices.
  access_list(std::initializer_list<access_desc> entries);
  explicit access_list(std::vector<access_desc> entries);

  /// Ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept;
  [[nodiscard]] std::optional<access_right> find(device_ref device) const noexcept;

  friend bool operator==(const access_list& a, const access_list& b) noexcept {
    return a.entries() == b.entries();
  }
  friend bool operator!=(const access_list& a, const access_list& b) noexcept { return !(a == b); }

 private:
  std::shared_ptr<const std::vector<access_desc>> entries_;  // null if empty
};

/// `right` for every other device that reaches memory of `owner` (hipDeviceCanAccessPeer).
/// Throws: std::invalid_argument when there is no such device; hip_error.
[[nodiscard]] access_list all_reachable_peers(device_ref owner,
                                              access_right right = access_right::read_write);

/// The rights of every device to memory of its owners. The first owner starts with read_write.
class access_map {
 public:
  explicit access_map(device_ref owner);
  /// Throws: as set().
  access_map(device_ref owner, const access_list& wanted);

  /// Throws: std::invalid_argument when there is no such device; unsupported when `device` cannot
  /// access the memory of every owner and `right` is not none.
  void set(device_ref device, access_right right);
  [[nodiscard]] access_right get(device_ref device) const noexcept;

  [[nodiscard]] device_ref owner() const noexcept { return owner_; }
  [[nodiscard]] const std::vector<device_ref>& other_owners() const noexcept {
    return other_owners_;
  }
  /// Extends the rights to memory of `device`; its own right stays. Throws: unsupported if a device
  /// with a right cannot access that memory; then nothing changed.
  void add_owner(device_ref device);
  /// Does nothing for owner() and for a device that is no owner.
  void remove_owner(device_ref device) noexcept;
  /// Every device with a right, ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept { return entries_; }
  [[nodiscard]] access_list list() const;

  friend bool operator==(const access_map& a, const access_map& b) noexcept {
    return a.owner_ == b.owner_ && a.entries_ == b.entries_;
  }
  friend bool operator!=(const access_map& a, const access_map& b) noexcept { return !(a == b); }

  /// Pre: [address, address + bytes) is exactly one new mapping, without any rights yet.
  void apply(void* address, std::size_t bytes) const;

 private:
  device_ref owner_;
  std::vector<device_ref> other_owners_;
  std::vector<access_desc> entries_;
};

/// Sets one device's right to one whole mapping. HIP keeps the rights of other devices.
/// Throws: unsupported if the device cannot reach the memory; hip_error.
void set_access(void* address, std::size_t bytes, access_desc desc);

/// Throws: hip_error when nothing is mapped.
[[nodiscard]] access_right get_access(const void* address, device_ref device);

}  // namespace hipvmm

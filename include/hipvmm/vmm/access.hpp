// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

/// The actions that a device may do on mapped bytes.
enum class access_right { none, read, read_write };

/// One device's right; the counterpart of hipMemAccessDesc.
struct access_desc {
  device_ref device;
  access_right right;

  friend bool operator==(const access_desc& a, const access_desc& b) noexcept {
    return a.device == b.device && a.right == b.right;
  }
};

/// The rights that a program asks for, each device named once: region_options::access and
/// set_access() take it.
/// - A device that is not named gets the default: the memory's owner read_write, any other none. So
///   an empty list means owner only, and the owner loses its right only if the list says so.
/// - An immutable value. Copies share the entries: a copy neither allocates nor throws.
/// - An entry names a device. The host has no entry: it may access all that a device may, or
///   nothing; host_access in docs/reference/capability.md says which.
class access_list {
 public:
  access_list() noexcept = default;
  /// Throws: std::invalid_argument, which names the device, for a device listed twice. Whether the
  /// devices exist, and reach the memory, is checked when the list is applied.
  access_list(std::initializer_list<access_desc> entries);
  explicit access_list(std::vector<access_desc> entries);

  /// Ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept;
  /// The right that the list gives `device`; empty for a device that is not named.
  [[nodiscard]] std::optional<access_right> find(device_ref device) const noexcept;

  friend bool operator==(const access_list& a, const access_list& b) noexcept {
    return a.entries() == b.entries();
  }
  friend bool operator!=(const access_list& a, const access_list& b) noexcept { return !(a == b); }

 private:
  std::shared_ptr<const std::vector<access_desc>> entries_;  // null if empty
};

/// Lists every other device of the process that reaches memory of `owner` (hipDeviceCanAccessPeer),
/// each with `right`. Nothing is granted until the list is applied.
/// Throws: std::invalid_argument when there is no such device; hip_error.
[[nodiscard]] access_list all_reachable_peers(device_ref owner,
                                              access_right right = access_right::read_write);

/// The rights of every device to memory of one owner device, kept to be applied to each new
/// mapping.
/// - A plain value: changing it changes no mapping until applied.
/// - The owner starts with read_write, every other device with none.
class access_map {
 public:
  explicit access_map(device_ref owner);
  /// The rights that `wanted` asks for. Throws: as set().
  access_map(device_ref owner, const access_list& wanted);

  /// Sets the right of `device` in this map.
  /// Throws: std::invalid_argument when there is no such device; unsupported, naming both devices
  /// and the link, when `device` cannot access the memory of every owner and `right` is not none.
  void set(device_ref device, access_right right);
  /// The right of `device` in this map; none for a device never set.
  [[nodiscard]] access_right get(device_ref device) const noexcept;

  [[nodiscard]] device_ref owner() const noexcept { return owner_; }
  /// Other devices with memory that the rights are to as well, in the order of add_owner().
  [[nodiscard]] const std::vector<device_ref>& other_owners() const noexcept {
    return other_owners_;
  }
  /// Makes the rights those to memory of `device` too. Its own right stays as it is.
  /// Throws: unsupported, naming both devices and the link, if a device that has a right cannot
  /// access that memory; then nothing changed.
  void add_owner(device_ref device);
  /// The reverse. Does nothing for owner(), and for a device that is no owner.
  void remove_owner(device_ref device) noexcept;
  /// Every device with a right, ordered by device.
  [[nodiscard]] const std::vector<access_desc>& entries() const noexcept { return entries_; }
  /// The list that asks for these rights.
  [[nodiscard]] access_list list() const;

  friend bool operator==(const access_map& a, const access_map& b) noexcept {
    return a.owner_ == b.owner_ && a.entries_ == b.entries_;
  }
  friend bool operator!=(const access_map& a, const access_map& b) noexcept { return !(a == b); }

  /// Applies all rights of this map to the mapped bytes [address, address + bytes).
  /// Pre: the range is exactly one new mapping: devices not in the map have no access yet.
  void apply(void* address, std::size_t bytes) const;

 private:
  device_ref owner_;
  std::vector<device_ref> other_owners_;
  std::vector<access_desc> entries_;
};

/// Sets one device's right to the mapped bytes [address, address + bytes), which are a whole
/// mapping. Other devices keep theirs (HIP merges per device).
/// Throws: unsupported if the device cannot reach the memory; hip_error.
void set_access(void* address, std::size_t bytes, access_desc desc);

/// Returns the right of `device` at `address` according to HIP.
/// Throws: hip_error when nothing is mapped.
[[nodiscard]] access_right get_access(const void* address, device_ref device);

}  // namespace hipvmm

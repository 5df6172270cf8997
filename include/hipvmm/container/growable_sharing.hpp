// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <hipvmm/container/growable_storage.hpp>

namespace hipvmm {

template <typename T>
class growable_device_vector;
template <typename T>
class partitioned_vector;
class reservation_request;

/// Access rights, chunks and exports of a growable_device_vector, independent of the element type:
/// its base class, which has the memory.
class growable_sharing {
 public:
  /// Grants another device access to the elements, present and future.
  /// Throws: unsupported when it cannot reach this device's memory; std::invalid_argument;
  /// hip_error.
  void grant(device_ref device, access_right right = access_right::read_write) {
    storage_.grant(device, right);
  }
  /// Revokes the access of `device`. Pre: no work of `device` in flight uses the elements.
  void revoke(device_ref device) { storage_.grant(device, access_right::none); }
  /// Replaces the rights of all devices at once, to the elements present and future: a device that
  /// `rights` does not name has the default then, see access_list.
  /// Pre: no work in flight needs a right that its device loses. Throws: as grant(); then all
  /// rights are as before.
  void set_access(const access_list& rights) { storage_.set_access(rights); }
  [[nodiscard]] access_right access(device_ref device) const noexcept {
    return storage_.access(device);
  }
  /// The rights to each chunk as HIP reports them: as growable_storage.
  [[nodiscard]] std::vector<chunk_access> effective_access() const {
    return storage_.effective_access();
  }
  /// The chunks behind the elements, and those to send to another process: as growable_storage.
  [[nodiscard]] std::vector<chunk_view> chunks() const { return storage_.chunks(); }
  [[nodiscard]] std::vector<exported_chunk> export_chunks(std::uint64_t since = 0) {
    return storage_.export_chunks(since);
  }
  [[nodiscard]] std::vector<exported_fabric_chunk> export_fabric_chunks(std::uint64_t since = 0) {
    return storage_.export_fabric_chunks(since);
  }
  /// Returns whether suspend() of growth_options::chunks.tag released the memory: sizes and data()
  /// stay, and calls that need the memory throw std::logic_error.
  [[nodiscard]] bool is_asleep() const noexcept { return storage_.is_asleep(); }
  /// For callers that use data() directly. Throws: std::logic_error while it sleeps; out_of_memory,
  /// hip_error if a call that failed left bytes without a mapping, which cannot be mapped yet.
  void require_awake(const char* function) const { storage_.require_awake(function); }
  /// Moves chunks to memory of another device, or of the host, behind the same addresses: as
  /// growable_storage. Offsets and sizes are bytes, as chunks() lists them.
  std::size_t move_range(std::size_t offset, std::size_t bytes, memory_location to,
                         stream_ref stream) {
    return storage_.move_range(offset, bytes, to, stream);
  }

 protected:
  growable_sharing(device_ref device, const growth_options& options) : storage_{device, options} {}
  explicit growable_sharing(growable_storage storage) noexcept : storage_{std::move(storage)} {}
  ~growable_sharing() = default;
  growable_sharing(growable_sharing&& other) noexcept = default;
  growable_sharing& operator=(growable_sharing&& other) noexcept = default;

 private:
  template <typename T>
  friend class growable_device_vector;
  template <typename T>
  friend class partitioned_vector;
  friend class reservation_request;

  growable_storage storage_;
};

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/memory_location.hpp>

struct ihipMemGenericAllocationHandle;

namespace hipvmm {

class physical_chunk;
struct fabric_handle;
[[nodiscard]] fabric_handle export_fabric(physical_chunk& chunk);
[[nodiscard]] physical_chunk import_chunk(const fabric_handle& handle, device_ref device);

namespace detail {
class chunk_charge;
class chunk_pins;
struct kept_chunk;
bool is_pinned(const physical_chunk& chunk) noexcept;
physical_chunk retain_at(const void* address, device_ref device, std::size_t bytes);
physical_chunk reference_to(const physical_chunk& chunk);
void withdraw_export(physical_chunk& chunk) noexcept;
}  // namespace detail

enum class handle_type {
  none,
  posix_fd,
  /// 64 bytes, for other nodes with linked GPUs too (multi-node NVLink): exports_fabric().
  fabric,
  posix_fd_and_fabric,
};

/// Pre: `wanted` is posix_fd or fabric.
[[nodiscard]] constexpr bool can_export(handle_type made, handle_type wanted) noexcept {
  return made == wanted || made == handle_type::posix_fd_and_fabric;
}

enum class chunk_memory {
  /// Writes of a kernel may stay in its device's caches until it ends.
  standard,
  /// hipMemAllocationTypeUncached: kernels that run at the same time, on one device or several, see
  /// each other's atomic writes. For flags and counters: bulk access is slow. Not in every release.
  uncached,
};

/// Granularities of HIP, in bytes.
struct allocation_granularity {
  std::size_t minimum;      ///< every chunk, reservation and mapping is a multiple of this
  std::size_t recommended;  ///< the multiple that HIP recommends for speed
};

/// Throws: unsupported without virtual memory management on `device`.
[[nodiscard]] allocation_granularity granularity_of(device_ref device);

/// Owns physical memory of one device or the host (one hipMemCreate, import or reference), not
/// accessible until mapped. HIP keeps the memory of a destroyed chunk until the last unmap.
class physical_chunk {
 public:
  physical_chunk() noexcept = default;
  /// Throws: std::invalid_argument unless `bytes` is a multiple of the minimum granularity and not
  /// zero; out_of_memory without memory, descriptors, or room in a memory_budget; hip_error.
  physical_chunk(device_ref device, std::size_t bytes, handle_type shareable = handle_type::none);
  /// Memory at `where`. Memory of the host is for work of `user` or devices with granted access,
  /// and cannot be shared with processes; `user` means nothing for a device.
  /// This and the next one throw as above, and hip_error if this release makes no such chunks.
  physical_chunk(memory_location where, std::size_t bytes, device_ref user);
  physical_chunk(device_ref device, std::size_t bytes, chunk_memory memory,
                 handle_type shareable = handle_type::none);
  /// Takes ownership of a handle that was imported or that the caller exported; it is shared().
  physical_chunk(ihipMemGenericAllocationHandle* handle, device_ref device,
                 std::size_t bytes) noexcept
      : handle_{handle},
        device_{device},
        bytes_{bytes},
        shareable_{handle_type::posix_fd},
        shared_{true} {}
  ~physical_chunk();
  physical_chunk(physical_chunk&& other) noexcept
      : handle_{std::exchange(other.handle_, nullptr)},
        device_{other.device_},
        process_{other.process_},
        bytes_{std::exchange(other.bytes_, 0)},
        creation_index_{other.creation_index_},
        shareable_{other.shareable_},
        memory_{other.memory_},
        shared_{other.shared_},
        charge_{std::move(other.charge_)},
        host_{other.host_} {}
  physical_chunk& operator=(physical_chunk&& other) noexcept;

  [[nodiscard]] ihipMemGenericAllocationHandle* get() const noexcept { return handle_; }
  /// Releases ownership; the caller calls hipMemRelease, and no memory_budget counts the memory.
  [[nodiscard]] ihipMemGenericAllocationHandle* release() noexcept;
  [[nodiscard]] bool empty() const noexcept { return handle_ == nullptr; }
  /// For memory of the host the device that it was made for.
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] memory_location location() const noexcept {
    return host_.value_or(memory_location{device_});
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] handle_type shareable() const noexcept { return shareable_; }
  /// Standard for an imported chunk, because HIP does not report the kind.
  [[nodiscard]] chunk_memory memory() const noexcept { return memory_; }
  /// Order of creation in this process; zero for a chunk that was imported or retained.
  [[nodiscard]] std::uint64_t creation_index() const noexcept { return creation_index_; }
  /// Whether the chunk was exported, imported or retained (retain_chunk()): others may use it.
  [[nodiscard]] bool shared() const noexcept { return shared_; }

 private:
  friend class mapping;
  friend class shareable_handle;
  friend fabric_handle export_fabric(physical_chunk& chunk);
  friend physical_chunk import_chunk(const fabric_handle& handle, device_ref device);
  friend physical_chunk detail::retain_at(const void* address, device_ref device,
                                          std::size_t bytes);
  friend physical_chunk detail::reference_to(const physical_chunk& chunk);
  friend void detail::withdraw_export(physical_chunk& chunk) noexcept;
  friend class detail::chunk_pins;
  friend struct detail::kept_chunk;
  friend bool detail::is_pinned(const physical_chunk& chunk) noexcept;

  ihipMemGenericAllocationHandle* handle_ = nullptr;
  device_ref device_{0};
  detail::owner_process process_;
  std::size_t bytes_ = 0;
  std::uint64_t creation_index_ = 0;
  handle_type shareable_ = handle_type::none;
  chunk_memory memory_ = chunk_memory::standard;
  bool shared_ = false;
  // Null for memory of the host, and for imported or retained memory.
  std::shared_ptr<detail::chunk_charge> charge_;
  std::optional<memory_location> host_;

  void create();
  /// Releases the handle, even if addresses pin the memory.
  void end() noexcept;
};

}  // namespace hipvmm

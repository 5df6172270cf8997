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

// The opaque struct behind hipMemGenericAllocationHandle_t.
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

/// How a chunk may be exported to another process.
enum class handle_type {
  none,      ///< not at all
  posix_fd,  ///< as a POSIX file descriptor
  /// As 64 bytes, also for other nodes with linked GPUs (multi-node NVLink): exports_fabric().
  fabric,
  posix_fd_and_fabric,  ///< as either
};

/// Pre: `wanted` is posix_fd or fabric.
[[nodiscard]] constexpr bool can_export(handle_type made, handle_type wanted) noexcept {
  return made == wanted || made == handle_type::posix_fd_and_fabric;
}

/// How the caches of devices treat a chunk's bytes.
enum class chunk_memory {
  /// Writes of a kernel may stay in its device's caches until the kernel ends.
  standard,
  /// No cache keeps the bytes (hipMemAllocationTypeUncached): kernels that run at the same time, on
  /// one device or several, see each other's atomic writes. For flags and counters, because bulk
  /// access is slow. HIP has no other fine-grained chunks, and not every release makes these.
  uncached,
};

/// HIP's allocation granularities of one device, in bytes.
struct allocation_granularity {
  std::size_t minimum;      ///< every chunk, reservation and mapping is a multiple of this
  std::size_t recommended;  ///< the multiple that HIP recommends for speed
};

/// Throws: unsupported when the runtime offers no virtual memory management on `device`.
[[nodiscard]] allocation_granularity granularity_of(device_ref device);

/// Owns physical memory of one device, or of the host (one hipMemCreate, import or reference). It
/// is not accessible until mapped. HIP keeps the memory of a destroyed chunk until the last unmap.
class physical_chunk {
 public:
  physical_chunk() noexcept = default;
  /// Throws: std::invalid_argument unless `bytes` is a multiple of the minimum granularity and not
  /// zero; out_of_memory without memory, descriptors, or room in a memory_budget; hip_error.
  physical_chunk(device_ref device, std::size_t bytes, handle_type shareable = handle_type::none);
  /// Memory at `where`. Memory of the host is for work of `user`, or of devices that are granted
  /// access, and cannot be shared with processes. `user` means nothing if `where` is a device. Not
  /// every release makes chunks of the host, and fewer those of one node.
  /// Throws: as above; out_of_memory when the host is exhausted; hip_error if HIP makes none there.
  physical_chunk(memory_location where, std::size_t bytes, device_ref user);
  /// Throws: as above; hip_error if HIP makes no chunks of such memory.
  physical_chunk(device_ref device, std::size_t bytes, chunk_memory memory,
                 handle_type shareable = handle_type::none);
  /// Takes ownership of a handle that was imported, or that the caller exported: it is shared().
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
  /// Releases ownership to the caller, who calls hipMemRelease; no memory_budget counts it then.
  [[nodiscard]] ihipMemGenericAllocationHandle* release() noexcept;
  [[nodiscard]] bool empty() const noexcept { return handle_ == nullptr; }
  /// The device that owns the memory; of memory of the host, the one that it was made for.
  [[nodiscard]] device_ref device() const noexcept { return device_; }
  [[nodiscard]] memory_location location() const noexcept {
    return host_.value_or(memory_location{device_});
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] handle_type shareable() const noexcept { return shareable_; }
  /// The kind; standard for an imported chunk, because HIP does not report it.
  [[nodiscard]] chunk_memory memory() const noexcept { return memory_; }
  /// Order of creation in this process; zero for a chunk that was imported or retained.
  [[nodiscard]] std::uint64_t creation_index() const noexcept { return creation_index_; }
  /// Whether others may use the memory: it was exported, imported or retained (retain_chunk()).
  [[nodiscard]] bool shared() const noexcept { return shared_; }

 private:
  friend class mapping;
  friend class shareable_handle;
  friend fabric_handle export_fabric(physical_chunk& chunk);
  friend physical_chunk import_chunk(const fabric_handle& handle, device_ref device);
  // Another reference to memory of another owner: src/vmm/physical_chunk.hpp.
  friend physical_chunk detail::retain_at(const void* address, device_ref device,
                                          std::size_t bytes);
  friend physical_chunk detail::reference_to(const physical_chunk& chunk);
  friend void detail::withdraw_export(physical_chunk& chunk) noexcept;
  // Addresses that keep the memory: src/vmm/address_reservation.hpp.
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
  // Counts the memory; null for memory of the host, and for imported or retained memory.
  std::shared_ptr<detail::chunk_charge> charge_;
  std::optional<memory_location> host_;  // if it is memory of the host

  void create();
  /// Releases the handle, whether or not addresses pin the memory.
  void end() noexcept;
};

}  // namespace hipvmm

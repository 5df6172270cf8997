// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>

namespace hipvmm::mr {

/// Interface for stream-ordered memory allocation; all resources of hipvmm are thread-safe. Differs
/// from std::pmr::memory_resource: functions take a stream, deallocation never throws, and a
/// request for zero bytes returns nullptr.
class memory_resource {
 public:
  /// Minimum alignment of HIP's own allocations, in bytes.
  static constexpr std::size_t default_alignment = 256;

  /// If it is set for a device, the initial resource takes its place (per_device_resource.hpp).
  virtual ~memory_resource();

  /// Allocates `bytes` bytes at a multiple of `alignment`; returns nullptr when `bytes` is zero.
  /// Stream: work submitted to `stream` after the call may use the memory.
  /// Throws: std::invalid_argument unless `alignment` is a power of two; out_of_memory; hip_error.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = default_alignment);
  /// Deallocates memory that allocate() or allocate_sync() returned for the same `bytes` and
  /// `alignment`. Does nothing for nullptr. The error handler gets errors.
  /// Stream: the memory is reused only after the work submitted to `stream` so far. The allocation,
  /// and all work that uses the memory, must be ordered before this call in `stream`.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t alignment = default_alignment) noexcept;

  /// Allocates as allocate(), but any stream, and copies by the host, may use the memory at once.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
  /// Deallocates without a stream; as safe as hipFree. The memory is not reused before all work
  /// submitted so far to devices with access to it is done. Each resource documents whether the
  /// caller waits for that work, or the next user of the memory.
  /// Pre: work of other processes, and copies of memory that no kernel can reach, have finished.
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t alignment = default_alignment) noexcept;

  /// Returns whether memory allocated by either resource may be deallocated by the other.
  [[nodiscard]] bool is_equal(const memory_resource& other) const noexcept {
    return this == &other || do_is_equal(other);
  }
  /// The device that owns the memory; nullopt when no single device does, or it is not known.
  [[nodiscard]] std::optional<device_ref> device() const noexcept { return do_device(); }
  /// Returns whether kernels of the resource's device may use the memory.
  [[nodiscard]] bool is_device_accessible() const noexcept { return do_is_device_accessible(); }
  [[nodiscard]] bool is_host_accessible() const noexcept { return do_is_host_accessible(); }
  /// Whether this process is a child of fork() of the resource's process.
  [[nodiscard]] bool is_of_parent() const noexcept;

 protected:
  memory_resource() = default;
  memory_resource(const memory_resource&) = default;
  /// Binds the resource to this process, because it keeps memory or records: in a child of fork()
  /// allocations throw unsupported, and deallocations do nothing.
  void keep_to_process() noexcept;
  /// Throws: unsupported if is_of_parent().
  void require_own_process() const;
  memory_resource& operator=(const memory_resource&) = default;

 private:
  // Pre: `bytes` is not zero, `alignment` is a power of two, and a pointer is not nullptr.
  [[nodiscard]] virtual void* do_allocate(stream_ref, std::size_t bytes, std::size_t alignment) {
    return do_allocate_sync(bytes, alignment);
  }
  virtual void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                             std::size_t alignment) noexcept = 0;
  [[nodiscard]] virtual void* do_allocate_sync(std::size_t bytes, std::size_t alignment) = 0;
  virtual void do_deallocate_sync(void* pointer, std::size_t bytes,
                                  std::size_t alignment) noexcept = 0;
  [[nodiscard]] virtual bool do_is_equal(const memory_resource&) const noexcept { return false; }
  [[nodiscard]] virtual std::optional<device_ref> do_device() const noexcept { return {}; }
  [[nodiscard]] virtual bool do_is_device_accessible() const noexcept { return true; }
  [[nodiscard]] virtual bool do_is_host_accessible() const noexcept { return false; }

  unsigned process_ = 0;
};

}  // namespace hipvmm::mr

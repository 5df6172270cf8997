// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>

#include <hipvmm/core/device.hpp>
#include <hipvmm/core/stream.hpp>

namespace hipvmm::mr {

/// A source of memory in stream order: what allocate() gives may be used by work submitted to the
/// stream from then on, and what deallocate() takes back is used again behind the work submitted to
/// the stream before. Differs from std::pmr::memory_resource in having a stream, in that giving
/// back never throws, and in that no bytes are nullptr. All resources of hipvmm are thread-safe.
class memory_resource {
 public:
  /// What HIP's own allocations are aligned to at least, in bytes.
  static constexpr std::size_t default_alignment = 256;

  virtual ~memory_resource() = default;

  /// `bytes` bytes whose address is a multiple of `alignment`; nullptr when `bytes` is zero.
  /// Stream: valid for work submitted to `stream` after the call.
  /// Throws: std::invalid_argument unless `alignment` is a power of two; out_of_memory; hip_error.
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = default_alignment);
  /// Gives back what allocate() or allocate_sync() gave for the same `bytes` and `alignment`;
  /// nothing when `pointer` is nullptr. What is wrong or fails goes to the error handler.
  /// Stream: all work that uses the memory is ordered before this call in `stream`.
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t alignment = default_alignment) noexcept;

  /// As allocate(), but the memory may be used at once, by any stream and by the host's copies.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
  /// As deallocate(), but of no stream in particular, and as safe as hipFree: nobody gets the
  /// memory before all work is over that devices with access to it had been given. The resource
  /// says who waits for that: the caller, or whoever wants the memory next. Pre: work of other
  /// processes, and copies of memory that no kernel reaches, have finished.
  void deallocate_sync(void* pointer, std::size_t bytes,
                       std::size_t alignment = default_alignment) noexcept;

  /// Whether what one of the two gave may be given back to the other.
  [[nodiscard]] bool is_equal(const memory_resource& other) const noexcept {
    return this == &other || do_is_equal(other);
  }
  /// The device whose memory it gives; nothing where that is none's in particular, or not known.
  [[nodiscard]] std::optional<device_ref> device() const noexcept { return do_device(); }
  /// Whether kernels of the resource's device may use the memory.
  [[nodiscard]] bool is_device_accessible() const noexcept { return do_is_device_accessible(); }
  /// Whether host code may read and write the memory through its address.
  [[nodiscard]] bool is_host_accessible() const noexcept { return do_is_host_accessible(); }

 protected:
  memory_resource() = default;
  memory_resource(const memory_resource&) = default;
  memory_resource& operator=(const memory_resource&) = default;

 private:
  // The arguments are checked: some bytes, an alignment that is a power of two, an address.
  [[nodiscard]] virtual void* do_allocate(stream_ref stream, std::size_t bytes,
                                          std::size_t alignment) = 0;
  virtual void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                             std::size_t alignment) noexcept = 0;
  [[nodiscard]] virtual void* do_allocate_sync(std::size_t bytes, std::size_t alignment) = 0;
  virtual void do_deallocate_sync(void* pointer, std::size_t bytes,
                                  std::size_t alignment) noexcept = 0;
  [[nodiscard]] virtual bool do_is_equal(const memory_resource&) const noexcept { return false; }
  [[nodiscard]] virtual std::optional<device_ref> do_device() const noexcept { return {}; }
  [[nodiscard]] virtual bool do_is_device_accessible() const noexcept { return true; }
  [[nodiscard]] virtual bool do_is_host_accessible() const noexcept { return false; }
};

}  // namespace hipvmm::mr

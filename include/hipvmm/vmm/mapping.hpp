// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <hipvmm/core/owner_process.hpp>
#include <hipvmm/runtime/device.hpp>

namespace hipvmm {

class address_reservation;
class memory_registrar;
class physical_chunk;

class mapping;

namespace detail {
class registration;
void unmap_together(mapping* const* run, std::size_t count);
}  // namespace detail

enum class map_check {
  trusted,
  verified,  ///< HIP is queried for the mapping
  believed [[deprecated("use trusted; until 0.4.0")]] = trusted,
};
using map_answer [[deprecated("use map_check; until 0.4.0")]] = map_check;

/// Owns the mapping of one whole chunk at one address, not the chunk or the addresses.
/// - No device may access the bytes until access is set; access is lost on unmap.
/// - On some ROCm releases the destructor waits for the device. A mapping that HIP refuses to unmap
///   is reported and unmapped later.
class mapping {
 public:
  mapping() noexcept = default;
  /// Maps the whole of `chunk` at byte `offset` of `reservation`. Throws: std::invalid_argument
  /// when either is empty or the chunk does not fit; hip_error when HIP refuses, as if something is
  /// mapped there. ROCm 6.1 to 7.13 report success then (ROCm/rocm-systems#7685): `verified`
  /// detects that, unless the present mapping begins there and has no rights.
  mapping(const address_reservation& reservation, std::size_t offset, const physical_chunk& chunk,
          map_check check = map_check::trusted);
  ~mapping();
  mapping(mapping&& other) noexcept
      : address_{std::exchange(other.address_, nullptr)},
        bytes_{std::exchange(other.bytes_, 0)},
        device_{other.device_},
        process_{other.process_},
        is_on_host_{other.is_on_host_},
        registered_{std::move(other.registered_)} {}
  mapping& operator=(mapping&& other) noexcept;

  /// Adds the memory to `registrar`, which is notified before unmap() and release().
  /// Pre: not empty, without a registrar; `chunk` is mapped here.
  /// Throws: as memory_registrar::add(); std::bad_alloc.
  void register_with(const std::shared_ptr<memory_registrar>& registrar,
                     const physical_chunk& chunk);
  void deregister() noexcept { registered_.reset(); }

  /// Throws: hip_error; then it is still held, and added to its registrar again.
  void unmap();

  [[nodiscard]] void* get() const noexcept { return address_; }
  /// Releases ownership; the caller unmaps [get(), get() + bytes()) with hipMemUnmap.
  [[nodiscard]] void* release() noexcept {
    deregister();
    bytes_ = 0;
    return std::exchange(address_, nullptr);
  }
  [[nodiscard]] bool empty() const noexcept { return address_ == nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// The memory's owner. Pre: not empty.
  [[nodiscard]] device_ref device() const noexcept { return device_ref{device_}; }
  /// Whether the memory is the host's; device() is then the device that it was made for.
  [[nodiscard]] bool is_on_host() const noexcept { return is_on_host_; }

 private:
  friend void detail::unmap_together(mapping* const* run, std::size_t count);

  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = -1;
  detail::owner_process process_;
  bool is_on_host_ = false;
  std::shared_ptr<detail::registration> registered_;
};

}  // namespace hipvmm

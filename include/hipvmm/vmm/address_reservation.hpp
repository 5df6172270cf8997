// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include <hipvmm/core/owner_process.hpp>

namespace hipvmm {

class address_reservation;

namespace detail {
struct address_calls;
void note_failed_map(const address_reservation& addresses) noexcept;
}  // namespace detail

/// Owns a range of device-visible virtual addresses (one hipMemAddressReserve) without memory. Pre
/// of destruction: nothing is mapped there. Addresses that HIP refuses to free are reported and
/// freed later; after AMD's hipErrorUnknown they are lost.
class address_reservation {
 public:
  address_reservation() noexcept = default;
  /// `hint` requests a start address, which HIP may ignore: compare get() with it.
  /// Throws: std::invalid_argument unless `bytes` is a multiple of the minimum granularity and not
  /// zero, and `alignment` is zero or a power of two; out_of_memory; unsupported if HIP reserves
  /// none or ignores `alignment`; hip_error.
  explicit address_reservation(std::size_t bytes, std::size_t alignment = 0, void* hint = nullptr);
  ~address_reservation();
  address_reservation(address_reservation&& other) noexcept
      : base_{std::exchange(other.base_, nullptr)},
        bytes_{std::exchange(other.bytes_, 0)},
        failed_maps_{other.failed_maps_.exchange(0)},
        process_{other.process_} {}
  address_reservation& operator=(address_reservation&& other) noexcept;

  /// Pre: nothing is mapped there. Throws: hip_error; then they are still held, unless HIP has lost
  /// its record of them.
  void free();

  [[nodiscard]] void* get() const noexcept { return base_; }
  /// Releases ownership; the caller frees the addresses with hipMemAddressFree.
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(base_, nullptr);
  }
  [[nodiscard]] bool empty() const noexcept { return base_ == nullptr; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  friend class mapping;
  friend struct detail::address_calls;
  friend void detail::note_failed_map(const address_reservation& addresses) noexcept;

  void* base_ = nullptr;
  std::size_t bytes_ = 0;
  mutable std::atomic<unsigned> failed_maps_{0};  // each has left a record in HIP
  detail::owner_process process_;
};

}  // namespace hipvmm

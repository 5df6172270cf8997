// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/host/pinned_memory.hpp"

namespace hipvmm::detail {

/// Owns memory of the host for contents.
class host_bytes {
 public:
  host_bytes() noexcept = default;
  /// Pinned memory, or of operator new. Throws: out_of_memory.
  host_bytes(std::size_t bytes, bool is_pinned);
  host_bytes(host_bytes&& other) noexcept
      : pinned_{std::move(other.pinned_)},
        pageable_{std::move(other.pageable_)},
        bytes_{std::exchange(other.bytes_, 0)} {}
  host_bytes& operator=(host_bytes&& other) noexcept {
    pinned_ = std::move(other.pinned_);
    pageable_ = std::move(other.pageable_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~host_bytes() = default;

  [[nodiscard]] std::byte* get() const noexcept {
    return pageable_ ? pageable_.get() : static_cast<std::byte*>(pinned_.get());
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool is_pinned() const noexcept { return pinned_.get() != nullptr; }
  /// Never frees it: a copy may be under way.
  void abandon() noexcept;

 private:
  pinned_memory pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  std::size_t bytes_ = 0;
};

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/host/pinned_memory.hpp"

namespace hipvmm::detail {

/// Owns memory of the host for contents, in blocks that are freed one by one, from the first on.
class host_bytes {
 public:
  /// Of each block but the last.
  static constexpr std::size_t block_bytes = std::size_t{64} << 20U;

  host_bytes() noexcept = default;
  /// Pinned memory, or of operator new. Throws: out_of_memory.
  host_bytes(std::size_t bytes, bool is_pinned);
  host_bytes(host_bytes&& other) noexcept
      : blocks_{std::move(other.blocks_)},
        bytes_{std::exchange(other.bytes_, 0)},
        freed_{std::exchange(other.freed_, 0)} {}
  host_bytes& operator=(host_bytes&& other) noexcept {
    blocks_ = std::move(other.blocks_);
    bytes_ = std::exchange(other.bytes_, 0);
    freed_ = std::exchange(other.freed_, 0);
    return *this;
  }
  ~host_bytes() = default;

  /// Pre: it was not freed.
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept {
    const block& one = blocks_[offset / block_bytes];
    return (one.pageable ? one.pageable.get() : static_cast<std::byte*>(one.pinned.get())) +
           offset % block_bytes;
  }
  /// Bytes from `offset` to the end of its block, and from the start of its block to `end`.
  [[nodiscard]] static std::size_t longest_at(std::size_t offset) noexcept {
    return block_bytes - offset % block_bytes;
  }
  [[nodiscard]] static std::size_t longest_before(std::size_t end) noexcept {
    return (end - 1) % block_bytes + 1;
  }
  /// Bytes that are not freed.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ - freed_; }
  [[nodiscard]] std::size_t freed() const noexcept { return freed_; }
  [[nodiscard]] bool is_pinned() const noexcept {
    return !blocks_.empty() && blocks_.back().pinned.get() != nullptr;
  }
  /// Frees the bytes before `offset`, the end of a block or of all.
  void free_until(std::size_t offset) noexcept;
  /// Never frees it: a copy may be under way.
  void abandon() noexcept;

 private:
  struct block {
    pinned_memory pinned;
    std::unique_ptr<std::byte[]> pageable;
  };
  std::vector<block> blocks_;
  std::size_t bytes_ = 0;
  std::size_t freed_ = 0;
};

}  // namespace hipvmm::detail

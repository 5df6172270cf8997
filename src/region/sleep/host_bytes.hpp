// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <hipvmm/runtime/device.hpp>
#include "runtime/host/pinned_memory.hpp"

namespace hipvmm::detail {

/// Memory of the host for contents, in blocks that are freed one by one, from the first on.
class host_bytes {
 public:
  /// Adds blocks up to `bytes` bytes: pinned for copies of `user`, or pageable without one. Throws:
  /// out_of_memory, hip_error; then none is added.
  void grow(std::size_t bytes, std::optional<device_ref> user);
  /// Drops the blocks from `bytes` on; one that begins before it stays whole.
  void shrink(std::size_t bytes) noexcept;
  /// Pre: its block was not freed.
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept {
    const block& one = *block_of(offset);
    return (one.pageable ? one.pageable.get() : static_cast<std::byte*>(one.pinned.get())) +
           (offset - one.start);
  }
  /// Bytes from `offset` to the end of its block; without a block, no_bound.
  [[nodiscard]] std::size_t longest_at(std::size_t offset) const noexcept {
    return offset < end() ? block_of(offset)->end - offset : no_bound;
  }
  /// Bytes in front of `end` in one block; without a block, no_bound.
  [[nodiscard]] std::size_t longest_before(std::size_t end) const noexcept {
    return end <= this->end() ? end - block_of(end - 1)->start : no_bound;
  }
  [[nodiscard]] bool ends_at(std::size_t offset) const noexcept {
    return offset != 0 && offset <= end() && block_of(offset - 1)->end == offset;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return end() - freed(); }
  [[nodiscard]] std::size_t freed() const noexcept {
    const auto first = std::ranges::find_if_not(blocks_, &block::is_freed);
    return first == blocks_.end() ? end() : first->start;
  }
  [[nodiscard]] bool is_pinned() const noexcept {
    return !blocks_.empty() && blocks_.back().pinned.get() != nullptr;
  }
  /// Frees the blocks that begin before `offset`.
  void free_until(std::size_t offset) noexcept;
  /// Leaks all of it, because copies may be under way.
  void abandon() noexcept;

 private:
  static constexpr std::size_t no_bound = std::numeric_limits<std::size_t>::max();

  struct block {
    std::size_t start;
    std::size_t end;
    pinned_memory pinned;
    std::unique_ptr<std::byte[]> pageable;

    [[nodiscard]] bool is_freed() const noexcept { return !pageable && pinned.get() == nullptr; }
  };
  [[nodiscard]] std::size_t end() const noexcept {
    return blocks_.empty() ? 0 : blocks_.back().end;
  }
  [[nodiscard]] std::vector<block>::const_iterator block_of(std::size_t offset) const noexcept {
    return std::partition_point(blocks_.begin(), blocks_.end(),
                                [offset](const block& each) { return each.end <= offset; });
  }

  std::vector<block> blocks_;
};

}  // namespace hipvmm::detail

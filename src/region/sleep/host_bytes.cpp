// SPDX-License-Identifier: MIT
#include "region/sleep/host_bytes.hpp"

#include <algorithm>
#include <new>

#include "core/check.hpp"

namespace hipvmm::detail {

host_bytes::host_bytes(std::size_t bytes, bool is_pinned) {
  blocks_.reserve((bytes + block_bytes - 1) / block_bytes);
  for (std::size_t done = 0; done < bytes; done += block_bytes) {
    const std::size_t here = std::min(block_bytes, bytes - done);
    block& one = blocks_.emplace_back();
    if (is_pinned) {
      one.pinned = pinned_memory{here};
    } else {
      one.pageable.reset(new (std::nothrow) std::byte[here]);
      if (!one.pageable) throw_out_of_host_memory(bytes, "operator new");
    }
  }
  bytes_ = bytes;
}

void host_bytes::free_until(std::size_t offset) noexcept {
  for (; freed_ < offset; freed_ = std::min(bytes_, freed_ + block_bytes))
    blocks_[freed_ / block_bytes] = {};
}

void host_bytes::abandon() noexcept {
  for (block& one : blocks_) {
    one.pinned.abandon();
    static_cast<void>(one.pageable.release());
  }
  *this = {};
}

}  // namespace hipvmm::detail

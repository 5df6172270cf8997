// SPDX-License-Identifier: MIT
#include "region/sleep/host_bytes.hpp"

#include <new>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"

namespace hipvmm::detail {

void host_bytes::grow(std::size_t bytes, std::optional<device_ref> user) {
  constexpr std::size_t block_bytes = 64 * MiB;
  const std::size_t before = end();
  try {
    while (end() < bytes) {
      block one{end(), std::min(bytes, end() + block_bytes), {}, {}};
      const std::size_t here = one.end - one.start;
      if (user) {
        // On ROCm 6 the current device makes the copies, and needs a right to the memory.
        const scoped_device scope{*user};
        one.pinned = pinned_memory{here};
      } else {
        one.pageable.reset(new (std::nothrow) std::byte[here]);
        if (!one.pageable) throw_out_of_host_memory(bytes, "operator new");
      }
      blocks_.push_back(std::move(one));
    }
  } catch (...) {
    shrink(before);
    throw;
  }
}

void host_bytes::shrink(std::size_t bytes) noexcept {
  while (!blocks_.empty() && blocks_.back().start >= bytes) blocks_.pop_back();
}

void host_bytes::free_until(std::size_t offset) noexcept {
  for (block& each : blocks_) {
    if (each.start >= offset) return;
    each.pinned = {};
    each.pageable.reset();
  }
}

void host_bytes::abandon() noexcept {
  for (block& one : blocks_) {
    one.pinned.abandon();
    static_cast<void>(one.pageable.release());
  }
  blocks_.clear();
}

}  // namespace hipvmm::detail

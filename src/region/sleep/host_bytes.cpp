// SPDX-License-Identifier: MIT
#include "region/sleep/host_bytes.hpp"

#include <new>

#include "core/check.hpp"

namespace hipvmm::detail {

host_bytes::host_bytes(std::size_t bytes, bool is_pinned) {
  if (bytes == 0) return;
  if (is_pinned) {
    pinned_ = pinned_memory{bytes};
  } else {
    pageable_.reset(new (std::nothrow) std::byte[bytes]);
    if (!pageable_) throw_out_of_host_memory(bytes, "operator new");
  }
  bytes_ = bytes;
}

void host_bytes::abandon() noexcept {
  static_cast<void>(pinned_.release());
  static_cast<void>(pageable_.release());
  bytes_ = 0;
}

}  // namespace hipvmm::detail

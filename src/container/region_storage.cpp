// SPDX-License-Identifier: MIT
#include "container/region_storage.hpp"

#include <algorithm>

#include <hipvmm/core/error.hpp>
#include "core/error.hpp"

namespace hipvmm::detail {

void region_storage::commit(std::size_t offset, std::size_t bytes) {
  if (start_ == 0 || held_ != held_memory::moves_data)
    return region_.commit(start_ + offset, bytes);
  if (attempt([&] { region_.commit(start_ + offset, bytes); })) return;
  // The addresses in front pin memory of released chunks until a move frees them.
  leave_front(region_.max_bytes(), committed_bytes());
  region_.commit(offset, bytes);
}

bool region_storage::extend(std::size_t max_bytes, std::size_t commit_bytes) {
  if (start_ == 0) return region_.extend(max_bytes, commit_bytes);
  // Each move waits, and a larger reservation makes moves rarer.
  const std::size_t present = region_.max_bytes();
  if (!attempt([&] { leave_front(std::max(max_bytes, present), commit_bytes); },
               [&](const shortage& why) {
                 return why.cause == exhausted::addresses && max_bytes < present;
               }))
    leave_front(max_bytes, commit_bytes);
  return true;
}

void region_storage::leave_front(std::size_t max_bytes, std::size_t commit_bytes) {
  region_.rebase(start_, max_bytes, commit_bytes);
  start_ = 0;
}

std::size_t region_storage::trim(std::size_t bytes, stream_ref stream, tail_chunk tail) {
  const bool begins_again = bytes == 0 && held_ != held_memory::stays_for_life;
  const std::size_t released = region_.trim(begins_again ? 0 : start_ + bytes, stream, tail);
  if (begins_again) start_ = erased_bytes_ = 0;
  return released;
}

void region_storage::erase_front(std::size_t bytes, stream_ref stream) {
  const std::size_t erased = erased_bytes_ + bytes;
  std::size_t released = 0;
  for (;;) {
    const std::size_t chunk = region_.chunk_bytes_at(start_ + released);
    if (chunk == 0 || released + chunk > erased || released + chunk == committed_bytes()) break;
    released += chunk;
  }
  if (released != 0) region_.decommit(start_, released, stream);
  start_ += released;
  erased_bytes_ = erased - released;
}

}  // namespace hipvmm::detail

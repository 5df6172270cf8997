// SPDX-License-Identifier: MIT
#include "src/base/heap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/base/text.hpp"

namespace stand_in {

heap::heap(unsigned node, std::uint64_t budget)
    : budget_(budget), span_(std::max(budget, std::min(budget * 8, std::uint64_t{1} << 40))) {
  const std::uint64_t records = span_ / page_bytes * sizeof(export_record);
  file_ = memfd_create(text("rocr_stand_in_node_%u", node).c_str(), MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(span_ + records)) != 0) {
    give_up(text("no memory file of %llu bytes for node %u: %s. Set HIPVMM_ROCR_MEMORY lower.",
                 wide(span_), node, std::strerror(errno)));
  }
  constexpr int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const got = mmap(nullptr, span_ + large_page_bytes, PROT_NONE, anonymous, -1, 0);
  void* view = MAP_FAILED;
  if (got != MAP_FAILED) {
    view = mmap(pointer_to(round_up(address_of(got), large_page_bytes)), span_,
                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0);
  }
  if (view == MAP_FAILED) {
    give_up(text("no addresses for %llu bytes of node %u: %s. Set HIPVMM_ROCR_MEMORY lower.",
                 wide(span_), node, std::strerror(errno)));
  }
  madvise(view, span_, MADV_DONTDUMP);
  base_ = static_cast<char*>(view);
  gaps_[0] = span_;
}

bool heap::allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t& offset) {
  std::lock_guard guard(lock_);
  if (bytes > budget_ || used_ > budget_ - bytes) return false;
  if (!find_gap(next_, bytes, alignment, offset) && !find_gap(0, bytes, alignment, offset)) {
    return false;
  }
  const auto gap = std::prev(gaps_.upper_bound(offset));
  const std::uint64_t first = gap->first;
  const std::uint64_t end = first + gap->second;
  gaps_.erase(gap);
  if (offset > first) gaps_[first] = offset - first;
  if (end > offset + bytes) gaps_[offset + bytes] = end - offset - bytes;
  if (!knobs().addresses_reused) next_ = offset + bytes;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

bool heap::find_gap(std::uint64_t from, std::uint64_t bytes, std::uint64_t alignment,
                    std::uint64_t& offset) const {
  for (const auto& [first, length] : gaps_) {
    const std::uint64_t start = round_up(std::max(first, from), alignment);
    if (start + bytes > first + length) continue;
    offset = start;
    return true;
  }
  return false;
}

void heap::free(std::uint64_t offset, std::uint64_t bytes) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  std::lock_guard guard(lock_);
  used_ -= bytes;
  auto gap = gaps_.emplace(offset, bytes).first;
  if (const auto next = std::next(gap); next != gaps_.end() && offset + bytes == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap == gaps_.begin()) return;
  if (const auto before = std::prev(gap); before->first + before->second == offset) {
    before->second += gap->second;
    gaps_.erase(gap);
  }
}

void heap::retire(std::uint64_t bytes) {
  std::lock_guard guard(lock_);
  used_ -= bytes;
}

std::uint64_t heap::record_offset(std::uint64_t offset) const {
  return span_ + offset / page_bytes * sizeof(export_record);
}

std::uint64_t heap::used() const {
  std::lock_guard guard(lock_);
  return used_;
}

std::uint64_t heap::peak() const {
  std::lock_guard guard(lock_);
  return peak_;
}

bool heap::contains(std::uint64_t address) const {
  return address >= address_of(base_) && address - address_of(base_) < span_;
}

}  // namespace stand_in

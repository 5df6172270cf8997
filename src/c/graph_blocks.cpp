// SPDX-License-Identifier: MIT
#include "c/graph_blocks.hpp"

#include <iterator>
#include <limits>
#include <utility>

#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/pool/vmm_pool_resource.hpp>
#include "core/capture_mode.hpp"

namespace hipvmm::c {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20U;
// As PyTorch's own allocator rounds, so that a graph takes no more memory than with that.
constexpr std::size_t block_unit = 512;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

/// Small blocks share a segment, a large one has its own.
constexpr std::size_t segment_bytes(std::size_t bytes) noexcept {
  if (bytes <= MiB) return 2 * MiB;
  if (bytes < 10 * MiB) return 20 * MiB;
  return rounded_up(bytes, 2 * MiB);
}

/// False if HIP does not report it: such memory stays out of use until it is released.
bool has_passed(const event& last_use) noexcept {
  try {
    const detail::relaxed_captures relaxed;
    return last_use.is_done();
  } catch (const hip_error&) {
    return false;
  }
}

}  // namespace

void* graph_blocks::allocate(std::size_t bytes, stream_ref stream) {
  // No pool has as much, so it refuses.
  if (bytes > std::numeric_limits<std::ptrdiff_t>::max()) return pool_->allocate(stream, bytes);
  free_passed();
  const std::size_t rounded = rounded_up(bytes, block_unit);
  auto found = best_fit(rounded, stream);
  if (found == blocks_.end()) found = add_segment(rounded, stream);
  if (found->second.bytes > rounded) split(found, rounded);
  found->second.now = use::allocated;
  return reinterpret_cast<void*>(found->first);  // NOLINT(performance-no-int-to-ptr)
}

std::size_t graph_blocks::deallocate(void* pointer, reuse next) noexcept {
  const auto freed = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
  const std::size_t bytes = freed->second.bytes;
  if (next == reuse::at_once) {
    static_cast<void>(set_free(freed));
  } else {
    freed->second.now = use::freed_in_capture;
  }
  return bytes;
}

std::size_t graph_blocks::deallocate_after(void* pointer, std::optional<event> passed) noexcept {
  block& freed = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer))->second;
  freed.now = use::used_by_others;
  freed.passed = std::move(passed);
  return freed.bytes;
}

void graph_blocks::free_passed() noexcept {
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->second.passed && has_passed(*each->second.passed)) each = set_free(each);
  }
}

void graph_blocks::end_capture() noexcept {
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->second.now == use::freed_in_capture) each = set_free(each);
  }
}

bool graph_blocks::release_idle() noexcept {
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->second.now != use::none && each->second.now != use::allocated) each = set_free(each);
  }
  for (auto each = blocks_.begin(); each != blocks_.end();) {
    const auto next = std::next(each);
    const bool whole =
        each->second.begins_segment && (next == blocks_.end() || next->second.begins_segment);
    if (whole && each->second.now == use::none) {
      pool_->deallocate_sync(
          reinterpret_cast<void*>(each->first),  // NOLINT(performance-no-int-to-ptr)
          each->second.bytes);
      blocks_.erase(each);
    }
    each = next;
  }
  return blocks_.empty();
}

// Each request of a capture searches all blocks: thousands, once in the life of a graph. So no
// deallocation needs memory for an index.
graph_blocks::blocks::iterator graph_blocks::best_fit(std::size_t bytes,
                                                      stream_ref stream) noexcept {
  auto best = blocks_.end();
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    const block& seen = each->second;
    if (seen.now != use::none || seen.bytes < bytes || seen.stream != stream) continue;
    if (best == blocks_.end() || seen.bytes < best->second.bytes) best = each;
  }
  return best;
}

graph_blocks::blocks::iterator graph_blocks::add_segment(std::size_t bytes, stream_ref stream) {
  const std::size_t wanted = segment_bytes(bytes);
  void* const memory = pool_->allocate(stream, wanted);
  try {
    return blocks_
        .emplace(reinterpret_cast<std::uintptr_t>(memory), block{wanted, stream, use::none, true})
        .first;
  } catch (...) {
    // Not in the stream, which is being captured.
    pool_->deallocate_sync(memory, wanted);
    throw;
  }
}

void graph_blocks::split(blocks::iterator whole, std::size_t bytes) {
  block rest{whole->second.bytes - bytes, whole->second.stream, use::none, false};
  blocks_.emplace_hint(std::next(whole), whole->first + bytes, std::move(rest));
  whole->second.bytes = bytes;
}

graph_blocks::blocks::iterator graph_blocks::set_free(blocks::iterator freed) noexcept {
  freed->second.now = use::none;
  freed->second.passed.reset();
  const auto right = std::next(freed);
  if (right != blocks_.end() && joins(freed, right)) {
    freed->second.bytes += right->second.bytes;
    blocks_.erase(right);
  }
  if (freed == blocks_.begin()) return freed;
  const auto left = std::prev(freed);
  if (!joins(left, freed)) return freed;
  left->second.bytes += freed->second.bytes;
  blocks_.erase(freed);
  return left;
}

bool graph_blocks::joins(blocks::iterator left, blocks::iterator right) const noexcept {
  return left->second.now == use::none && right->second.now == use::none &&
         !right->second.begins_segment && left->second.stream == right->second.stream;
}

}  // namespace hipvmm::c

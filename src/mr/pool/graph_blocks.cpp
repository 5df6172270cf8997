// SPDX-License-Identifier: MIT
#include "mr/pool/graph_blocks.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>

namespace hipvmm::mr::pool {
namespace {

// The upstream refuses larger requests.
constexpr std::size_t largest_request = std::numeric_limits<std::ptrdiff_t>::max();

/// False if HIP does not report it: such memory stays out of use until it is released.
bool has_passed(const event& last_use) noexcept {
  try {
    const detail::relaxed_captures relaxed;
    return last_use.is_done();
  } catch (const hip_error&) {
    return false;
  }
}

/// None if HIP does not list them: memory of other streams stays theirs.
std::vector<hipGraphNode_t> listed_before(const detail::capture_place& place) {
  try {
    return detail::nodes_before(place);
  } catch (const hip_error&) {
    return {};
  }
}

void* pointer_to(std::uintptr_t address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

bool graph_blocks::user::may_have(const block& one) const noexcept {
  if (one.now != use::none) return false;
  if (one.stream ? *one.stream == stream : one.last_nodes.empty()) return true;
  return earlier != nullptr && !one.last_nodes.empty() &&
         std::ranges::includes(*earlier, one.last_nodes);
}

void* graph_blocks::allocate(std::size_t bytes, std::size_t alignment, stream_ref stream) {
  if (void* const made = try_allocate(bytes, alignment, stream, nullptr)) return made;
  const std::size_t wanted = segment_bytes(bytes);
  add_segment(upstream_->allocate(stream, wanted, alignment), wanted, alignment, stream);
  return try_allocate(bytes, alignment, stream, nullptr);
}

void* graph_blocks::try_allocate(std::size_t bytes, std::size_t alignment, stream_ref stream,
                                 const detail::capture_place* place) {
  if (bytes > largest_request) return nullptr;
  free_passed();
  const std::size_t rounded = align_up(bytes, unit);
  std::optional<std::uintptr_t> found = best_fit(rounded, alignment, {stream, nullptr});
  if (!found && place != nullptr) {
    const std::vector<hipGraphNode_t> earlier = listed_before(*place);
    found = best_fit(rounded, alignment, {stream, &earlier});
  }
  if (!found) return nullptr;
  const auto taken = split_at(*found);
  const auto end = split_at(*found + rounded);
  taken->second.now = use::allocated;
  taken->second.bytes = rounded;
  taken->second.stream = stream;
  blocks_.erase(std::next(taken), end);
  return pointer_to(*found);
}

std::size_t graph_blocks::segment_bytes(std::size_t bytes) noexcept {
  if (bytes > largest_request) return bytes;
  if (bytes <= MiB) return 2 * MiB;
  if (bytes < 10 * MiB) return 20 * MiB;
  return align_up(bytes, 2 * MiB);
}

graph_blocks::blocks::iterator graph_blocks::find(const void* pointer) noexcept {
  return blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
}

std::size_t graph_blocks::size_of(const void* pointer) const noexcept {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
  return found != blocks_.end() && found->second.now == use::allocated ? found->second.bytes : 0;
}

void graph_blocks::deallocate(void* pointer, reuse next) noexcept {
  const auto freed = find(pointer);
  freed->second.last_nodes.clear();
  if (next == reuse::at_once) {
    static_cast<void>(set_free(freed));
  } else {
    freed->second.now = next == reuse::after_another ? use::freed_in_any : use::freed_in_capture;
  }
}

void graph_blocks::deallocate(void* pointer, stream_ref stream,
                              detail::capture_place place) noexcept {
  const auto freed = find(pointer);
  freed->second.last_nodes = std::move(place.last);
  // Without a node before the free no work uses the block. Default streams of two threads share a
  // handle.
  freed->second.stream.reset();
  if (!freed->second.last_nodes.empty() && !stream.is_per_thread_default())
    freed->second.stream = stream;
  static_cast<void>(set_free(freed));
}

void graph_blocks::deallocate_after(void* pointer, std::optional<event> passed) noexcept {
  block& freed = find(pointer)->second;
  freed.now = use::used_by_others;
  freed.passed = std::move(passed);
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

void graph_blocks::start_over() noexcept {
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->second.now == use::allocated) continue;
    if (each->second.now == use::freed_in_any) {
      each->second.now = use::freed_in_capture;
      continue;
    }
    each->second.stream.reset();
    each->second.last_nodes.clear();
    each = set_free(each);
  }
}

bool graph_blocks::release_idle() noexcept {
  for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
    if (each->second.now != use::none && each->second.now != use::allocated) each = set_free(each);
  }
  const auto begins = [](const auto& each) { return each.second.segment_alignment != 0; };
  const auto is_free = [](const auto& each) { return each.second.now == use::none; };
  for (auto first = blocks_.begin(); first != blocks_.end();) {
    const auto next = std::find_if(std::next(first), blocks_.end(), begins);
    if (std::all_of(first, next, is_free)) {
      const auto& [last, rest] = *std::prev(next);
      const std::size_t bytes = last + rest.bytes - first->first;
      held_bytes_ -= bytes;
      upstream_->deallocate_sync(pointer_to(first->first), bytes, first->second.segment_alignment);
      blocks_.erase(first, next);
    }
    first = next;
  }
  return blocks_.empty();
}

void graph_blocks::release() noexcept {
  for (auto& each : blocks_) each.second.now = use::freed_in_capture;
  release_idle();
}

// Searches all blocks, because an index would need memory in a deallocation.
std::optional<std::uintptr_t> graph_blocks::best_fit(std::size_t bytes, std::size_t alignment,
                                                     const user& who) const noexcept {
  std::optional<std::uintptr_t> best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (auto first = blocks_.begin(); first != blocks_.end();) {
    auto last = first;
    std::size_t run = 0;
    while (last != blocks_.end() && (run == 0 || last->second.segment_alignment == 0) &&
           who.may_have(last->second)) {
      run += last->second.bytes;
      ++last;
    }
    const std::size_t skipped = -first->first & (alignment - 1);
    if (run < least && skipped < run && run - skipped >= bytes) {
      least = run;
      best = first->first + skipped;
    }
    first = run == 0 ? std::next(first) : last;
  }
  return best;
}

void graph_blocks::add_segment(void* memory, std::size_t bytes, std::size_t alignment,
                               std::optional<stream_ref> stream) {
  try {
    blocks_.emplace(reinterpret_cast<std::uintptr_t>(memory),
                    block{bytes, stream, use::none, alignment});
    held_bytes_ += bytes;
  } catch (...) {
    // Not in the stream, which is being captured.
    upstream_->deallocate_sync(memory, bytes, alignment);
    throw;
  }
}

void graph_blocks::swap(graph_blocks& other) noexcept {
  std::swap(upstream_, other.upstream_);
  blocks_.swap(other.blocks_);
  std::swap(held_bytes_, other.held_bytes_);
}

graph_blocks::blocks::iterator graph_blocks::split_at(std::uintptr_t address) {
  const auto next = blocks_.lower_bound(address);
  if (next != blocks_.end() && next->first == address) return next;
  const auto whole = std::prev(next);
  block& left = whole->second;
  const std::uintptr_t end = whole->first + left.bytes;
  if (address >= end) return next;  // the end of a segment
  const auto rest = blocks_.emplace_hint(
      next, address, block{end - address, left.stream, left.now, 0, left.last_nodes});
  left.bytes = address - whole->first;
  return rest;
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
  left->second.last_nodes = std::move(freed->second.last_nodes);
  blocks_.erase(freed);
  return left;
}

// Of blocks of one stream, the one freed last is ordered after the others, so its nodes are kept.
bool graph_blocks::joins(blocks::iterator left, blocks::iterator right) const noexcept {
  const block& first = left->second;
  const block& second = right->second;
  return first.now == use::none && second.now == use::none && second.segment_alignment == 0 &&
         first.stream == second.stream && (first.stream || first.last_nodes == second.last_nodes);
}

}  // namespace hipvmm::mr::pool

// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

// PyTorch's caching allocator by its published rules, with no memory behind it: which calls of HIP
// would it make, and how much would it hold? For comparisons with the pool.
namespace hipvmm::test {

enum class segment_kind {
  native,      ///< allocations of hipMalloc, cut into blocks
  expandable,  ///< a range of addresses for each stream and size, backed by chunks as needed
};

class caching_allocator {
 public:
  explicit caching_allocator(segment_kind kind) : kind_{kind} {}

  struct place {
    std::size_t segment = 0;
    std::size_t offset = 0;
  };
  place allocate(ihipStream_t* stream, std::size_t asked) {
    const std::size_t bytes = round_up(std::max<std::size_t>(asked, 1), least_block);
    const bool is_small = bytes <= most_small;
    owner& from = owners_[{stream, is_small}];
    auto found = from.free.lower_bound({bytes, 0, 0});
    if (found == from.free.end()) found = grow(from, bytes, is_small);
    const auto [size, where, offset] = *found;
    from.free.erase(found);
    block& taken = segments_[where].blocks.at(offset);
    taken.is_free = false;
    const std::size_t left = size - bytes;
    const bool may_be_any = is_small || kind_ == segment_kind::expandable;
    if (may_be_any ? left >= least_block : left > most_small) {
      taken.bytes = bytes;
      add_free(where, offset + bytes, left);
    }
    return {where, offset};
  }
  /// The block is free for the stream that it was allocated in.
  void deallocate(const place& at) {
    auto& blocks = segments_[at.segment].blocks;
    auto found = blocks.find(at.offset);
    std::size_t bytes = found->second.bytes;
    std::size_t offset = at.offset;
    if (const auto next = std::next(found); next != blocks.end() && next->second.is_free) {
      bytes += next->second.bytes;
      remove_free(at.segment, next->first);
      blocks.erase(next);
    }
    if (found != blocks.begin() && std::prev(found)->second.is_free) {
      const auto before = std::prev(found);
      bytes += before->second.bytes;
      offset = before->first;
      remove_free(at.segment, offset);
      blocks.erase(before);
    }
    blocks.erase(found);
    add_free(at.segment, offset, bytes);
  }

  std::uint64_t mallocs = 0;
  std::uint64_t maps = 0;    // and as many chunks
  std::uint64_t grants = 0;  // one for all that is mapped at a time
  std::size_t held = 0;      // nothing is released: the limit is far

 private:
  static constexpr std::size_t least_block = 512;
  static constexpr std::size_t mib = std::size_t{1} << 20U;
  static constexpr std::size_t most_small = mib;
  struct block {
    std::size_t bytes;
    bool is_free;
  };
  using free_set = std::set<std::tuple<std::size_t, std::size_t, std::size_t>>;
  struct owner {
    free_set free;                  // bytes, segment, offset
    std::size_t segment = nowhere;  // of an expandable one
  };
  struct segment {
    owner* of;
    std::size_t bytes = 0;
    std::map<std::size_t, block> blocks = {};
  };
  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  static std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }
  free_set::iterator add_free(std::size_t where, std::size_t offset, std::size_t bytes) {
    segments_[where].blocks[offset] = {bytes, true};
    return segments_[where].of->free.insert({bytes, where, offset}).first;
  }
  void remove_free(std::size_t where, std::size_t offset) {
    segment& all = segments_[where];
    all.of->free.erase({all.blocks.at(offset).bytes, where, offset});
  }
  free_set::iterator grow(owner& from, std::size_t bytes, bool is_small) {
    if (kind_ == segment_kind::native) {
      constexpr std::size_t least_own = 10 * mib;
      const std::size_t size = is_small            ? 2 * mib
                               : bytes < least_own ? 20 * mib
                                                   : round_up(bytes, 2 * mib);
      ++mallocs;
      held += size;
      const std::size_t made = segments_.size();
      segments_[made] = {&from, size};
      return add_free(made, 0, size);
    }
    if (from.segment == nowhere) {
      from.segment = segments_.size();
      segments_[from.segment] = {&from};
    }
    segment& all = segments_[from.segment];
    std::size_t offset = all.bytes;
    if (!all.blocks.empty() && all.blocks.rbegin()->second.is_free) {
      offset = all.blocks.rbegin()->first;
      remove_free(from.segment, offset);
    }
    const std::size_t page = (is_small ? 2 : 20) * mib;
    const std::size_t more = round_up(offset + bytes - all.bytes, page);
    maps += more / page;
    ++grants;
    held += more;
    all.bytes += more;
    return add_free(from.segment, offset, all.bytes - offset);
  }

  segment_kind kind_;
  std::map<std::pair<ihipStream_t*, bool>, owner> owners_;
  std::map<std::size_t, segment> segments_;
};

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <utility>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "vmm/refused_unmaps.hpp"

namespace hipvmm {

/// The addresses of a region: one reservation, and those that extend() found free directly after
/// it.
class address_range {
 public:
  explicit address_range(address_reservation first) { append(std::move(first)); }

  [[nodiscard]] void* base() const noexcept { return parts_.front().get(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] void* end() const noexcept { return static_cast<char*>(base()) + bytes_; }

  /// Pre: `next` starts at end().
  void append(address_reservation next) {
    const std::size_t added = next.bytes();
    parts_.push_back(std::move(next));
    bytes_ += added;
  }
  void drop_last() noexcept {
    bytes_ -= parts_.back().bytes();
    parts_.pop_back();
  }
  /// Maps `chunk` at `offset`.
  /// Pre: the chunk is within one part, see longest_at().
  /// Throws: as mapping; as hipMemUnmap where something is mapped there that HIP refuses to unmap.
  [[nodiscard]] mapping map(std::size_t offset, const physical_chunk& chunk,
                            map_answer answer) const {
    refused_.retry(static_cast<char*>(base()) + offset, chunk.bytes());
    if (size_of_all_ == 0) size_of_all_ = chunk.bytes();
    has_two_sizes_ = has_two_sizes_ || chunk.bytes() != size_of_all_;
    std::size_t start = 0;
    auto part = parts_.begin();
    while (offset >= start + part->bytes()) start += (part++)->bytes();
    mapping made{*part, offset - start, chunk, map_answer::believed};
    if (answer == map_answer::verified) refused_.verify_or_keep(made, chunk);
    return made;
  }
  /// Returns whether all mappings so far had one size.
  [[nodiscard]] bool had_one_size() const noexcept { return !has_two_sizes_; }
  /// Start of the reservation that contains `offset`.
  [[nodiscard]] std::size_t part_start(std::size_t offset) const noexcept {
    std::size_t start = 0;
    for (auto part = parts_.begin(); offset - start >= part->bytes(); ++part)
      start += part->bytes();
    return start;
  }
  /// The most bytes from `offset` on that one chunk may cover: HIP maps within one reservation.
  [[nodiscard]] std::size_t longest_at(std::size_t offset) const noexcept {
    std::size_t end = 0;
    auto part = parts_.begin();
    while (offset >= end) end += (part++)->bytes();
    return end - offset;
  }

  /// Mappings that still exist here though nobody uses them.
  [[nodiscard]] refused_unmaps& refused() const noexcept { return refused_; }

 private:
  boost::container::small_vector<address_reservation, 2> parts_;
  std::size_t bytes_ = 0;
  mutable std::size_t size_of_all_ = 0;
  mutable bool has_two_sizes_ = false;
  mutable refused_unmaps refused_;  // destroyed before the addresses
};

}  // namespace hipvmm

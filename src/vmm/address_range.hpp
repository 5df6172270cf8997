// SPDX-License-Identifier: MIT
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <utility>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>

namespace hipvmm {

/// The addresses of a region: one reservation, and those that extend() found free right behind it.
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
  /// Maps `chunk` at `offset`. Pre: it lies within one part, as longest_at() tells.
  [[nodiscard]] mapping map(std::size_t offset, const physical_chunk& chunk,
                            map_answer answer) const {
    if (size_of_all_ == 0) size_of_all_ = chunk.bytes();
    has_two_sizes_ = has_two_sizes_ || chunk.bytes() != size_of_all_;
    std::size_t start = 0;
    auto part = parts_.begin();
    while (offset >= start + part->bytes()) start += (part++)->bytes();
    return mapping{*part, offset - start, chunk, answer};
  }
  /// Whether all mappings so far had one size.
  [[nodiscard]] bool had_one_size() const noexcept { return !has_two_sizes_; }
  /// Where the reservation around `offset` begins.
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

 private:
  boost::container::small_vector<address_reservation, 2> parts_;
  std::size_t bytes_ = 0;
  mutable std::size_t size_of_all_ = 0;
  mutable bool has_two_sizes_ = false;
};

}  // namespace hipvmm

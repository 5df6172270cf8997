// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/runtime/device_allocation.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "tool/replay/replay_failures.hpp"

namespace hipvmm::tool {

struct checked_block {
  void* pointer;
  std::size_t bytes;
  std::uint32_t number;  ///< different from all others
  std::uint32_t row;     ///< of the trace
};

/// Finds blocks that share memory, at the same time or out of stream order. No two may have an
/// address in common. Each is filled with words of its own right after its allocation and copied
/// aside right before its free, both in its stream. The host waits for neither, so that work is in
/// flight when memory is reused. Another thread compares the copies; the caller adds the failures.
class block_checker {
 public:
  /// Of larger blocks `budget` bytes are checked: pieces at both ends and evenly between.
  static constexpr std::size_t default_budget = std::size_t{64} << 10;
  static constexpr std::size_t least_budget = 64;
  static constexpr std::size_t staging_bytes = std::size_t{32} << 20;
  /// Fills of one stream that may be in flight. AMD's runtime 6.4.3 keeps patterns of fills in a
  /// ring of 1 MiB for each stream, and overwrites patterns that are still to be read when the ring
  /// is full: after about 1360 fills.
  static constexpr std::size_t fills_in_flight = 256;

  block_checker(device_ref device, std::size_t budget, replay_failures& failures);
  ~block_checker();
  block_checker& operator=(block_checker&&) = delete;

  void fill(stream_ref stream, const checked_block& block);
  void copy_aside(stream_ref stream, const checked_block& block);
  void finish();

  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t bytes_looked_at() const noexcept { return looked_at_; }

 private:
  struct piece {
    std::size_t offset;  // in the block, a multiple of 4
    std::size_t bytes;
  };
  struct copied {
    std::size_t at;
    piece of;
    std::uint32_t number;
    std::uint32_t row;
  };
  struct half {
    std::size_t start;
    std::size_t used = 0;
    std::vector<copied> pieces = {};
    std::vector<stream_ref> streams = {};
    std::vector<unsigned char> on_host = {};
    std::future<std::vector<std::string>> wrong = {};
  };

  [[nodiscard]] std::vector<piece> pieces_of(std::size_t bytes) const;
  void require_apart(const checked_block& block);
  /// Waits until at most fills_in_flight fills of `stream` are in flight.
  void note_fill(stream_ref stream);
  void put(stream_ref stream, const checked_block& block, piece part);
  void compare_in_background(half& full);
  void collect(half& compared);
  static std::vector<std::string> compare(const half& full);

  std::size_t budget_;
  replay_failures& failures_;
  device_allocation staging_;
  stream copies_to_host_;
  event order_;
  struct stream_fills {
    std::size_t since_mark = 0;
    std::optional<event> mark = std::nullopt;  // before those
  };
  std::vector<std::pair<stream_ref, stream_fills>> fills_;
  std::map<std::uintptr_t, checked_block> alive_;
  std::size_t blocks_ = 0;
  std::size_t bytes_ = 0;
  std::size_t looked_at_ = 0;
  std::size_t current_ = 0;
  std::array<half, 2> halves_;  // last: their threads use the members above
};

}  // namespace hipvmm::tool

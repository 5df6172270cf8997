// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory/address_map.hpp"
#include "memory/peer_table.hpp"

namespace hipvmm::host_provider {

struct device_access {
  address_map& memory;
  const peer_table& peers;
};

/// Pieces of equal size that lie apart: `rows` in each of `slices`.
struct piece_grid {
  std::size_t rows = 1;
  std::size_t slices = 1;
};

struct pitches {
  std::size_t row = 0;
  std::size_t slice = 0;
};

struct endpoint {
  address start;
  memory_class where;
  int device;
  /// hipMalloc memory of any device is allowed, because the runtime stages the bytes or does not
  /// check peers.
  bool staged;
  pitches apart = {};

  [[nodiscard]] endpoint at_piece(std::size_t row, std::size_t slice) const noexcept {
    return {start + row * apart.row + slice * apart.slice, where, device, staged};
  }
};

template <class Use>
void for_each_piece(const piece_grid& pieces, Use use) {
  for (std::size_t slice = 0; slice < pieces.slices; ++slice)
    for (std::size_t row = 0; row < pieces.rows; ++row) use(row, slice);
}

/// Copies `bytes` of each piece. A piece that overlaps its target is copied as memmove would.
struct copy_request {
  endpoint destination;
  endpoint source;
  std::size_t bytes;
  piece_grid pieces = {};
  std::unique_ptr<std::byte[]> snapshot =
      nullptr;  // holds the source when it had to be read at once
};

/// Writes `count` elements of `width` bytes (1, 2 or 4) of each piece.
struct fill_request {
  endpoint destination;
  std::uint32_t pattern;
  unsigned width;
  std::size_t count;
  piece_grid pieces = {};
};

/// The condition that ends a wait for a value, on the bits of the mask. not_behind is at_least with
/// wraparound: the difference is not negative.
enum class value_condition { at_least, not_behind, equal, any_bit, not_all_bits };

/// Waits until `width` bytes (4 or 8) of memory, read as one number, meet a condition.
struct value_wait_request {
  endpoint memory;
  unsigned width;
  value_condition condition;
  std::uint64_t value;
  std::uint64_t mask;
};

/// Writes a number of `width` bytes (4 or 8).
struct value_write_request {
  endpoint memory;
  unsigned width;
  std::uint64_t value;
};

[[nodiscard]] bool is_met(const value_wait_request& wait, std::uint64_t found) noexcept;

/// The check at submission: whether each byte of each piece may be used now.
bool allowed(const device_access& by, const endpoint& side, right needed, std::size_t bytes,
             const piece_grid& pieces = {});

/// Does the work, and checks each slice of at most 1 MiB again: memory may have been unmapped or
/// revoked since the submission. Returns hipErrorIllegalAddress then.
hipError_t perform(const device_access& by, const copy_request& work);
hipError_t perform(const device_access& by, const fill_request& work);
/// Polls, because streams, the host and other processes may write the memory. It may be unmapped
/// meanwhile, which ends the wait with the same error.
hipError_t perform(const device_access& by, const value_wait_request& work);
hipError_t perform(const device_access& by, const value_write_request& work);

}  // namespace hipvmm::host_provider

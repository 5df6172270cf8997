// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mr/pool/allocator/block_allocator.hpp"
#include "mr/pool/allocator/fake_backend.hpp"

namespace hipvmm::test {

using mr::pool_source;
using mr::pool::block_allocator;
using mr::pool::stream_state;

/// The books of a pool over memory and streams in a test's hands.
struct pool_of {
  explicit pool_of(std::size_t stream_count = 2, bool aliases = false,
                   std::size_t address_bytes = 64 * GiB)
      : streams{stream_count}, memory{streams, aliases, address_bytes} {}

  stream_state& state(std::size_t stream) {
    return all.state_of(hand_driven_streams::name(stream));
  }
  /// Memory for `stream`, which uses it at once.
  std::size_t take(std::size_t stream, std::size_t bytes, std::size_t alignment = 256) {
    const std::optional<std::size_t> at = all.allocate(state(stream), {bytes, alignment});
    REQUIRE(at);
    memory.use(stream, *at, bytes);
    return *at;
  }
  void give(std::size_t stream, std::size_t at, std::size_t bytes) {
    REQUIRE(all.deallocate(state(stream), at, bytes));
  }
  /// Memory that `stream` had and has freed.
  std::size_t take_freed(std::size_t stream, std::size_t bytes) {
    const std::size_t at = take(stream, bytes);
    give(stream, at, bytes);
    return at;
  }
  /// Memory for all streams.
  std::size_t take_idle(std::size_t bytes) {
    const std::optional<std::size_t> at = all.allocate(all.idle(), {bytes, 256});
    REQUIRE(at);
    return *at;
  }
  [[nodiscard]] std::uint64_t served(pool_source by) {
    return all.counters().served[static_cast<std::size_t>(by)];
  }

  hand_driven_streams streams;
  watched_memory memory;
  block_allocator all{memory, streams, 2 * MiB};
};

}  // namespace hipvmm::test

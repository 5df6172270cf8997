// SPDX-License-Identifier: MIT
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mr/pool/engine.hpp"
#include "mr/pool/fake_sides.hpp"

namespace hipvmm::test {

using mr::pool::engine;
using mr::pool::rung;
using mr::pool::stream_ledger;

/// The books of a pool over memory and streams in a test's hands.
struct pool_of {
  explicit pool_of(std::size_t stream_count = 2, bool aliases = false,
                   std::size_t address_bytes = 64 * GiB)
      : streams{stream_count}, memory{streams, aliases, address_bytes} {}

  stream_ledger& ledger(std::size_t stream) {
    return all.ledger_of(hand_driven_streams::name(stream));
  }
  /// Memory for `stream`, which uses it at once.
  std::size_t take(std::size_t stream, std::size_t bytes, std::size_t alignment = 256) {
    const std::optional<std::size_t> at = all.allocate(ledger(stream), bytes, alignment);
    REQUIRE(at);
    memory.use(stream, *at, bytes);
    return *at;
  }
  void give(std::size_t stream, std::size_t at, std::size_t bytes) {
    REQUIRE(all.deallocate(ledger(stream), at, bytes));
  }
  [[nodiscard]] std::uint64_t served(rung by) {
    return all.counters().served[static_cast<std::size_t>(by)];
  }

  hand_driven_streams streams;
  watched_memory memory;
  engine all{memory, streams, 2 * MiB};
};

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "order_stack.hpp"
#include "order_streams.hpp"

namespace hipvmm::host_provider {

/// Who did something: which function, on which stream, called from where.
struct order_origin {
  const char* function;
  std::optional<order_stream> stream;  ///< empty: the host, which uses no stream for it
  order_stack stack;
};

/// An operation in its place: the `count`-th of its stream.
struct order_deed {
  stream_number stream;
  std::uint64_t count;
  std::shared_ptr<const order_origin> origin;
};

/// What an operation does to bytes, the weakest first. A prefetch moves pages and leaves the bytes
/// alone, so it races with nothing; but the memory must be there.
enum class order_use { prefetch, read, write };

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "race/race_stack.hpp"
#include "race/race_streams.hpp"

namespace hipvmm::host_provider {

struct race_origin {
  const char* function;
  std::optional<race_stream> stream;  ///< empty: the host, which uses no stream for it
  race_stack stack;
};

/// Operation `count` of its stream.
struct race_deed {
  stream_number stream;
  std::uint64_t count;
  std::shared_ptr<const race_origin> origin;
};

}  // namespace hipvmm::host_provider

// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/region_options.hpp>
#include "support/host/recording_registrar.hpp"
#include "support/test.hpp"

namespace hipvmm::test {

inline region_options registered_by(const registrar_ptr& registrar) {
  return region_options{.registrar = registrar};
}

/// The registrar knows the chunks of `region`, and no others.
inline void check_knows(const recording_registrar& registrar, const region& region) {
  const auto known = registrar.known();
  CHECK(known.size() == region.chunk_count());
  for (const chunk_view& chunk : region.chunks()) {
    const auto at = known.find(chunk.address);
    const bool is_known = at != known.end();
    REQUIRE(is_known);
    CHECK(at->second.bytes == chunk.bytes);
    CHECK(at->second.handle == chunk.handle);
    CHECK(at->second.device == chunk.device);
    CHECK(at->second.location == chunk.location);
  }
  CHECK(registrar.mistakes() == 0);
}

}  // namespace hipvmm::test

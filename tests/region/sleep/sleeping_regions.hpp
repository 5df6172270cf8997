// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/sleep/memory_tag.hpp>
#include "region/region_test.hpp"

namespace hipvmm::test {

inline region_options tagged(const memory_tag& tag) { return region_options{.tag = tag}; }

/// Two regions of one tag: three chunks in one, the last behind a hole, and one chunk in the other.
struct sleeping_regions {
  const std::size_t unit = granule();
  memory_tag tag{"weights"};
  hipvmm::stream stream{first_device};
  region first{first_device, 16 * unit, tagged(tag)};
  region second{first_device, 4 * unit, tagged(tag)};
  void* const base = first.base();
  void* const second_base = second.base();

  sleeping_regions() {
    first.commit(0, unit);
    first.commit(unit, unit);
    first.commit(4 * unit, unit);
    second.commit(0, unit);
    write_tags(first, 0, 2, 1, stream);
    write_tag(first, 4, 1, stream);
    write_tag(second, 0, 2, stream);
  }
  [[nodiscard]] bool has_contents() const {
    return has_tag(first, 0, 1, stream) && has_tag(first, 1, 1, stream) &&
           has_tag(first, 4, 1, stream) && has_tag(second, 0, 2, stream);
  }
  void check_sizes() const {
    CHECK(first.base() == base);
    CHECK(second.base() == second_base);
    CHECK(first.max_bytes() == 16 * unit);
    CHECK(first.committed_bytes() == 3 * unit);
    CHECK(second.committed_bytes() == unit);
  }
  void check_awake() const {
    CHECK_FALSE(tag.is_asleep());
    check_sizes();
    CHECK(first.chunk_count() == 3);
    CHECK(first.committed_from(0) == 2 * unit);
    CHECK(first.chunk_bytes_at(4 * unit) == unit);
    CHECK(has_contents());
    CHECK(tag.statistics().bytes_on_host == 0);
  }
  void check_asleep() const {
    CHECK(tag.is_asleep());
    CHECK(first.is_asleep());
    check_sizes();
    CHECK(first.chunk_count() == 0);
    CHECK(first.chunks().empty());
    CHECK(tag.statistics().bytes_asleep == 4 * unit);
  }
};

}  // namespace hipvmm::test

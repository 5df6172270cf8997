// SPDX-License-Identifier: MIT
#pragma once

#include <hipvmm/region/region.hpp>
#include <hipvmm/region/sleep/evictable.hpp>
#include "container/container_test.hpp"
#include "support/process/child_case.hpp"
#include "support/region/region_contents.hpp"

namespace hipvmm::test {

/// Whether tagged memory returns: not on hipMalloc, and not on ROCm 6.4.
inline bool can_sleep() {
  const capability& of = capability_of(first_device);
  return of.path() != memory_path::fallback &&
         (of.has(trait::returns_memory) || of.needs(quirk::re_reserve));
}

/// Runs a child on a device of 64 MiB, if tagged memory returns.
inline void check_where_memory_sleeps(const std::string& name) {
  if (can_sleep()) check_child(name, {"HIPVMM_HOST_MEMORY=64MiB"});
}
#define EVICTABLE_TEST_CASE(name) HIPVMM_TEST_CASE_BY(check_where_memory_sleeps, name)

inline evictable_options of_priority(int priority) {
  evictable_options options;
  options.priority = priority;
  return options;
}

inline region_options tagged_by(const memory_tag& tag) {
  region_options options;
  options.tag = tag;
  return options;
}

/// Memory of a tag of its own, with contents.
struct evictable_layer {
  explicit evictable_layer(std::size_t size, evictable_options options = {},
                           std::uint32_t number = 1)
      : bytes{size}, seed{number}, memory{first_device, size, tagged_by(tag)} {
    memory.commit(0, size);
    const stream writes;
    write_tag(memory, 0, seed, writes);
    write_tag(memory, last(), seed, writes);
    held.emplace(tag, first_device, std::move(options));
  }
  [[nodiscard]] std::size_t last() const { return bytes / granule() - 1; }
  [[nodiscard]] bool is_here() const { return !tag.is_asleep(); }
  [[nodiscard]] bool has_contents() const {
    const stream reads;
    return has_tag(memory, 0, seed, reads) && has_tag(memory, last(), seed, reads);
  }
  /// Whether a use finds the contents.
  bool is_right(access_right right = access_right::read) {
    const stream reads;
    const scoped_use use{*held, reads, right};
    return has_contents();
  }

  std::size_t bytes;
  std::uint32_t seed;
  memory_tag tag{"layer " + std::to_string(seed)};
  region memory;
  std::optional<evictable> held;
};

/// A request of so many bytes, which the device has again soon after.
inline void request_bytes(std::size_t bytes) {
  growable_device_vector<char> vector{first_device};
  vector.resize_uninitialized(bytes);
}

inline bool request_is_served(std::size_t bytes) {
  try {
    request_bytes(bytes);
    return true;
  } catch (const out_of_memory&) {
    return false;
  }
}

}  // namespace hipvmm::test

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "capability/probe.hpp"

namespace hipvmm::detail {

/// Waits for a stream when destroyed. A failure may destroy it before the stream has finished.
/// After that, mappings made before this object are no longer in use.
class finished_work {
 public:
  explicit finished_work(const stream& queue) noexcept : queue_{queue} {}
  ~finished_work();
  finished_work& operator=(finished_work&&) = delete;

 private:
  const stream& queue_;
};

/// Adjacent mappings of a probe, each of a chunk of its own, in one reservation.
class mapped_row {
 public:
  mapped_row(probe_site& site, std::size_t most);
  /// Uses addresses that are already reserved.
  mapped_row(probe_site& site, address_reservation reserved);
  ~mapped_row();
  mapped_row(mapped_row&&) = default;
  mapped_row& operator=(mapped_row&&) = delete;
  /// Maps one more chunk after the last. No device has a right to it yet.
  void add();
  /// Maps one more chunk of `units` units, `at_unit` units from the start. No device has a right to
  /// it yet.
  void add_at(std::size_t at_unit, std::size_t units);
  /// Grants the owner mapping `index` alone.
  void grant_alone(std::size_t index) const;
  /// Grants the owner all mappings: each by itself, or all from the first on if that is refused.
  void grant();
  /// Unmaps each mapping and releases the chunks; reports failures.
  void unmap();
  /// Unmaps each mapping, releases the chunks and frees the addresses; reports failures.
  void undo();

  [[nodiscard]] std::size_t size() const noexcept { return maps.size(); }
  [[nodiscard]] void* at(std::size_t index) const noexcept {
    return static_cast<char*>(addresses.get()) + index * site_.unit;
  }

  address_reservation addresses;
  std::vector<physical_chunk> chunks;
  std::vector<mapping> maps;

 private:
  probe_site& site_;
};

/// A row of `count` mappings that the owner may use.
mapped_row granted_row(probe_site& site, std::size_t count);

/// The longest time for a mapping to become visible; after that it counts as not working at all.
inline constexpr std::chrono::milliseconds longest_visibility_delay{100};

using word = std::uint32_t;
inline constexpr std::size_t word_count = 1024;

/// Returns words that no other seed produces.
std::vector<word> pattern(word seed);
/// Returns the words at `from`, by a copy in `queue`, which may belong to another device than the
/// site.
std::vector<word> words_at(const stream& queue, const void* from);

/// Returns whether words written at `to` are read at `from`. `from` is the same address or maps the
/// same memory.
bool carries(const probe_site& site, void* to, const void* from, word seed);
/// The same, repeated for the time that mappings may take to become visible.
bool carries_in_time(const probe_site& site, void* to, const void* from, word seed);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hipvmm/vmm/address_reservation.hpp>
#include <hipvmm/vmm/mapping.hpp>
#include <hipvmm/vmm/physical_chunk.hpp>
#include "vmm/probe.hpp"

namespace hipvmm::detail {

/// Waits for a stream at its end, which a failure may bring before the stream has finished: what
/// was mapped before this object was made is used no more then.
class finished_work {
 public:
  explicit finished_work(const stream& queue) noexcept : queue_{queue} {}
  ~finished_work();
  finished_work(const finished_work&) = delete;
  finished_work& operator=(const finished_work&) = delete;

 private:
  const stream& queue_;
};

/// Neighbouring mappings of a probe, each of a chunk of its own, in one reservation.
class mapped_row {
 public:
  mapped_row(probe_site& site, std::size_t most);
  /// In addresses that are reserved already.
  mapped_row(probe_site& site, address_reservation reserved);
  ~mapped_row();
  mapped_row(mapped_row&&) = default;
  mapped_row& operator=(mapped_row&&) = delete;
  /// Maps one more chunk behind the last. No device has a right to it yet.
  void add();
  /// Maps one more chunk of `units` units, `at_unit` units from the start. No device has a right to
  /// it yet.
  void add_at(std::size_t at_unit, std::size_t units);
  /// Grants the owner mapping `index` alone.
  void grant_alone(std::size_t index) const;
  /// Grants the owner what is mapped: each mapping by itself, or all from the first on where that
  /// is refused.
  void grant();
  /// Unmaps each and releases the chunks, telling of what fails.
  void unmap();
  /// Unmaps each, releases the chunks and frees the addresses, telling of what fails.
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

/// How long a mapping is given to become visible before it counts as not working at all.
inline constexpr std::chrono::milliseconds longest_settling{100};

using word = std::uint32_t;
inline constexpr std::size_t word_count = 1024;

/// Words that no other seed gives.
std::vector<word> pattern(word seed);
/// What lies at `from`, by a copy of `queue`, which may be another device's than the site's.
std::vector<word> words_at(const stream& queue, const void* from);

/// Whether words written at `to` are read at `from`, which is the same or shows the same memory.
bool carries(const probe_site& site, void* to, const void* from, word seed);
/// The same, for the time that mappings may take to settle.
bool carries_in_time(const probe_site& site, void* to, const void* from, word seed);

}  // namespace hipvmm::detail

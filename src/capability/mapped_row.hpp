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

/// The destructor waits for the stream, so that an exception unmaps nothing in use.
class finished_work {
 public:
  explicit finished_work(const stream& queue) noexcept : queue_{queue} {}
  ~finished_work();
  finished_work& operator=(finished_work&&) = delete;

 private:
  const stream& queue_;
};

/// A probe's mappings in one reservation, each of its own chunk.
class mapped_row {
 public:
  mapped_row(probe_site& site, std::size_t most);
  mapped_row(probe_site& site, address_reservation reserved);
  ~mapped_row();
  mapped_row(mapped_row&&) = default;
  mapped_row& operator=(mapped_row&&) = delete;
  void add();  ///< maps a chunk behind the last, without rights
  /// Maps a chunk of `units` units, `at_unit` units from the start, without rights.
  void add_at(std::size_t at_unit, std::size_t units);
  void grant_alone(std::size_t index) const;
  /// Grants the owner each mapping alone, or all at once if that is refused.
  void grant();
  /// Also releases the chunks. Throws: hip_error, as undo().
  void unmap();
  void undo();  ///< as unmap(), and frees the addresses

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

mapped_row granted_row(probe_site& site, std::size_t count);

/// A mapping that is visible later counts as not working.
inline constexpr std::chrono::milliseconds longest_visibility_delay{100};

using word = std::uint32_t;
inline constexpr std::size_t word_count = 1024;

std::vector<word> pattern(word seed);  ///< words that no other seed produces
/// `queue` may be of another device than the site.
std::vector<word> words_at(const stream& queue, const void* from);

/// Whether words written at `to` are read at `from`, the same or another address of that memory.
bool carries(const probe_site& site, void* to, const void* from, word seed);
/// Retried for longest_visibility_delay.
bool carries_in_time(const probe_site& site, void* to, const void* from, word seed);

}  // namespace hipvmm::detail

// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "region/map_runs.hpp"
#include "region/region_state.hpp"
#include "region/retirement.hpp"
#include "vmm/physical_chunk.hpp"

namespace hipvmm::detail {

namespace {

/// Differs between processes: an importer may know serials of a process that has ended.
std::uint64_t serials_of_process() noexcept {
  std::uint64_t mixed =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) ^
      static_cast<std::uint64_t>(::getpid()) << 40U;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
  return (mixed >> 33U) << 32U;
}

void require_made(const char* function, std::size_t offset, const backing& held, handle_type wanted,
                  const char* name) {
  if (can_export(held.chunk.shareable(), wanted)) return;
  throw std::invalid_argument{
      std::string{"region::"} + function + ": the chunk at offset " + std::to_string(offset) +
      " was made without handle_type::" + name +
      ": set region_options::shareable (of a vector growth_options::chunks.shareable, of a pool "
      "pool_options::shareable) before the region is made"};
}

exported_chunk export_one(const char* function, std::size_t offset, backing& held) {
  require_made(function, offset, held, handle_type::posix_fd, "posix_fd");
  return {offset, held.serial, shareable_handle{held.chunk}};
}

/// All or none.
template <typename Exported, typename Range, typename Export>
std::vector<Exported> export_all(Range&& some, Export export_each) {
  std::vector<Exported> result;
  std::vector<physical_chunk*> fresh;  // not shared before
  try {
    for (auto& [offset, held] : some) {
      if (!held.chunk.shared()) fresh.push_back(&held.chunk);
      result.push_back(export_each(offset, held));
    }
  } catch (...) {
    for (physical_chunk* const each : fresh) withdraw_export(*each);
    throw;
  }
  return result;
}

template <typename Exported, typename Export>
std::vector<Exported> export_since(backing_map& backings, std::uint64_t since, Export export_each) {
  const auto is_newer = [since](const auto& each) { return each.second.serial > since; };
  std::vector<Exported> result =
      export_all<Exported>(backings | std::views::filter(is_newer), export_each);
  std::ranges::sort(result, {}, &Exported::serial);
  return result;
}

}  // namespace

std::uint64_t region_state::next_serial() noexcept {
  static std::atomic<std::uint64_t> last{serials_of_process()};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::vector<chunk_view> region_state::chunks() const {
  std::vector<chunk_view> result;
  result.reserve(backings.size());
  for (const auto& [offset, held] : backings)
    result.push_back({offset, held.bytes(), held.map.get(), held.chunk.device(), held.chunk.get(),
                      held.serial, held.chunk.location(), held.chunk.memory()});
  return result;
}

std::vector<exported_chunk> region_state::export_chunks(std::uint64_t since) {
  return export_since<exported_chunk>(backings, since, [](std::size_t offset, backing& held) {
    return export_one("export_chunks", offset, held);
  });
}

std::vector<exported_fabric_chunk> region_state::export_fabric_chunks(std::uint64_t since) {
  return export_since<exported_fabric_chunk>(
      backings, since, [](std::size_t offset, backing& held) {
        require_made("export_fabric_chunks", offset, held, handle_type::fabric, "fabric");
        return exported_fabric_chunk{offset, held.serial, export_fabric(held.chunk)};
      });
}

exported_range region_state::export_range(std::size_t offset, std::size_t bytes) {
  if (bytes == 0 || committed_from(offset) < bytes)
    throw std::invalid_argument{"region::export_range: of the " + std::to_string(bytes) +
                                " bytes at offset " + std::to_string(offset) + " only " +
                                std::to_string(std::min(bytes, committed_from(offset))) +
                                " are backed: commit() them, and name at least one byte"};
  return {offset, bytes,
          export_all<exported_chunk>(
              backings_within(backings, offset, bytes),
              [](auto start, auto& held) { return export_one("export_range", start, held); })};
}

void region_state::adopt(std::map<std::size_t, physical_chunk>& chunks) {
  // Also for reclaim_pinned_if_empty(), which reads the ready chunk after a failure.
  prefetch.cancel_or_wait();
  std::size_t end = 0;
  for (const auto& [offset, chunk] : chunks) {
    const std::size_t bytes = chunk.bytes();
    require_free("adopt", offset, bytes, end);
    end = offset + bytes;
  }
  if (chunks.empty()) return;
  require_addresses();
  const std::size_t start = chunks.begin()->first;
  drop_prepared();
  if (shares_addresses()) finish_retired(*addresses, start, end - start);
  backing_map additions;
  try {
    map_runs runs{*this, mapped_here(&additions)};
    for (const auto& [offset, chunk] : chunks) {
      backing& one = additions.try_emplace(offset).first->second;
      one.elsewhere = chunk.get();
      runs.add(offset, chunk, nullptr, one.map, &one.visible);
    }
    runs.finish();
  } catch (...) {
    release_all(additions, *addresses, cache());
    throw;
  }
  auto next = additions.begin();
  for (auto& [offset, chunk] : chunks) {
    next->second.elsewhere = nullptr;
    (next++)->second.chunk = std::move(chunk);
  }
  merge(additions);
  await_visible(start, end - start);
}

}  // namespace hipvmm::detail

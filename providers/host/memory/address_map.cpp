// SPDX-License-Identifier: MIT
#include "memory/address_map.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <tuple>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "memory/managed_pages.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr device_set everybody = ~device_set{0};
constexpr int reserve_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

address map_anonymous(address hint, std::size_t bytes, int protection, int flags) {
  void* const mapped = mmap(pointer_to(hint), bytes, protection, flags, -1, 0);
  require(mapped != MAP_FAILED, error_of_errno(errno));
  return address_of(mapped);
}

address map_usable(std::size_t bytes, const file_backing& pages) {
  constexpr int protection = PROT_READ | PROT_WRITE;
  if (pages.file < 0) return map_anonymous(0, bytes, protection, reserve_flags);
  void* const mapped =
      mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, pages.file, pages.offset);
  require(mapped != MAP_FAILED, error_of_errno(errno));
  return address_of(mapped);
}

address round_up(address value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

// Leaves `behind` bytes after the reservation free, for the next hint.
address reserve_aligned(std::size_t bytes, std::size_t alignment, std::size_t behind) {
  if (behind == 0) {
    const address direct = map_anonymous(0, bytes, PROT_NONE, reserve_flags);
    if (direct % alignment == 0) return direct;
    munmap(pointer_to(direct), bytes);
  }
  require(bytes <= std::numeric_limits<std::size_t>::max() - alignment - behind,
          hipErrorOutOfMemory);
  const std::size_t wide_bytes = bytes + alignment + behind;
  const address wide = map_anonymous(0, wide_bytes, PROT_NONE, reserve_flags);
  const address aligned = round_up(wide, alignment);
  if (aligned != wide) munmap(pointer_to(wide), aligned - wide);
  munmap(pointer_to(aligned + bytes), wide + wide_bytes - aligned - bytes);
  return aligned;
}

address reserve_anywhere(std::size_t bytes, std::size_t alignment, std::size_t behind,
                         address hint) {
  if (fault_plan::get().ignored_hints()) {
    const address start = reserve_aligned(bytes, alignment, behind);
    if (start != hint) return start;
    const address other = reserve_aligned(bytes, alignment, behind);
    munmap(pointer_to(start), bytes);
    return other;
  }
  if (hint != 0 && hint % alignment == 0) {
    // Only a hint to the kernel: with MAP_FIXED_NOREPLACE it would give a privileged process
    // addresses below vm.mmap_min_addr, and ThreadSanitizer would turn a hint beyond the address
    // space into address 0.
    void* const at = mmap(pointer_to(hint), bytes, PROT_NONE, reserve_flags, -1, 0);
    if (at == pointer_to(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, bytes);
  }
  return reserve_aligned(bytes, alignment, behind);
}

}  // namespace

address address_map::reserve(std::size_t bytes, std::size_t alignment, address hint) {
  {
    const guard lock{mutex_};
    require(bytes <= address_space_ - reserved_bytes_, hipErrorOutOfMemory);
    reserved_bytes_ += bytes;
  }
  if (rules_.alignment == alignment_rule::ignored) alignment = 0;
  address start = 0;
  try {
    start = reserve_anywhere(bytes, std::max(alignment, granularity_), rules_.free_behind, hint);
    guard lock{mutex_};
    forget_stale(lock, start, bytes);
    reservations_.emplace(start, reservation{bytes});
  } catch (...) {
    if (start != 0) munmap(pointer_to(start), bytes);
    const guard lock{mutex_};
    reserved_bytes_ -= bytes;
    throw;
  }
  return start;
}

void address_map::free_reservation(address start, std::size_t bytes) {
  reservation_map::node_type freed;  // dies after the lock, with memory that it kept
  {
    const guard lock{mutex_};
    const auto at = reservations_.find(start);
    const bool is_known = at != reservations_.end() && !at->second.is_forgotten;
    if (!is_known && rules_.not_a_reservation == bad_pointer::accepted) return;
    if (!is_known && rules_.not_a_reservation == bad_pointer::followed) {
      throw crash{"reads a null pointer for addresses that are not a reservation",
                  "ROCm/clr to 6.4, and 7.2.4, hip_vm.cpp"};
    }
    require(is_known);
    require(rules_.freed_size == free_size::ignored || at->second.bytes == bytes);
    if (at->second.mappings != 0) return refuse_to_free(at->second);
    freed = reservations_.extract(at);
  }
  munmap(pointer_to(start), freed.mapped().bytes);
  const guard lock{mutex_};
  reserved_bytes_ -= freed.mapped().bytes;
}

void address_map::refuse_to_free(reservation& used) const {
  switch (rules_.free_mapped) {
    case free_of_mapped::invalid_value:
      throw failure{hipErrorInvalidValue};
    case free_of_mapped::unknown_error:
      throw failure{hipErrorUnknown};
    case free_of_mapped::forgotten:
      used.is_forgotten = true;
  }
}

address address_map::allocate(memory_kind kind, int device, std::size_t bytes, unsigned flags) {
  require(bytes <= host_memory_, hipErrorOutOfMemory);
  const std::size_t extent = whole_pages(bytes);
  auto made = std::make_unique<tracked_range>(tracked_range{
      kind, device, 0, bytes, extent, flags, everybody, everybody, nullptr, false, 0, 0});
  {
    const guard lock{mutex_};
    require(extent <= host_memory_ - std::min(host_bytes_, host_memory_), hipErrorOutOfMemory);
    host_bytes_ += extent;
  }
  try {
    made->start = map_usable(extent, {});
    return add(std::move(made));
  } catch (...) {
    const guard lock{mutex_};
    host_bytes_ -= extent;
    throw;
  }
}

address address_map::allocate_from(memory_kind kind, std::shared_ptr<chunk> memory,
                                   unsigned flags) {
  const std::size_t extent = whole_pages(memory->bytes());
  auto made = std::make_unique<tracked_range>(
      tracked_range{kind, memory->device(), 0, memory->bytes(), extent, flags, everybody, everybody,
                    memory, false, 0, 0});
  made->start = map_usable(extent, {memory->file(), memory->offset()});
  return add(std::move(made));
}

address address_map::place_block(int device, std::size_t bytes, std::shared_ptr<tenancy> tenant,
                                 const file_backing& pages, memory_kind kind) {
  const std::size_t extent = whole_pages(bytes);
  auto made = std::make_unique<tracked_range>(
      tracked_range{kind, device, 0, bytes, extent, 0, everybody, everybody, nullptr, false, 0, 0});
  made->tenant = std::move(tenant);
  made->start = map_usable(extent, pages);
  return add(std::move(made));
}

address address_map::add(std::unique_ptr<tracked_range> made) {
  const auto [kind, start, bytes] = std::tuple{made->kind, made->start, made->extent_bytes};
  try {
    if (kind == memory_kind::managed_allocation) {
      made->pages = std::make_shared<managed_pages>(start, made->bytes);
    }
    guard lock{mutex_};
    forget_stale(lock, start, bytes);
    ranges_.emplace(start, std::move(made));
    ++live(kind);
  } catch (...) {
    munmap(pointer_to(start), bytes);
    throw;
  }
  return start;
}

tracked_range address_map::free_allocation(memory_kind kind, address start) {
  range_map::node_type freed;
  {
    guard lock{mutex_};
    const auto at = ranges_.find(start);
    require(at != ranges_.end() && at->second->kind == kind && !at->second->changing);
    tracked_range* const leaving = at->second.get();
    retire(lock, {&leaving, 1});
    // Removed before the addresses are free: another thread may get them at once.
    freed = ranges_.extract(start);
    --live(kind);
    if (kind == memory_kind::host_allocation || kind == memory_kind::managed_allocation)
      host_bytes_ -= freed.mapped()->extent_bytes;
  }
  if (kind != memory_kind::registration) munmap(pointer_to(start), freed.mapped()->extent_bytes);
  return std::move(*freed.mapped());
}

address_map::totals address_map::count() const {
  const guard lock{mutex_};
  const auto [mappings, device, host, managed, imported, blocks, graphs, registered] = live_;
  static_cast<void>(blocks);  // pools and graphs count those that are held
  static_cast<void>(graphs);
  return {reservations_.size(), mappings, device, host, managed, imported, registered};
}

std::uint64_t address_map::granted_mappings() const {
  const guard lock{mutex_};
  return granted_;
}

std::vector<address_map::live_range> address_map::live_ranges() const {
  const guard lock{mutex_};
  std::vector<live_range> found;
  for (const auto& [start, each] : reservations_) {
    found.push_back({std::nullopt, 0, start, each.bytes});
  }
  for (const auto& [start, each] : ranges_) {
    const std::size_t bytes = each->tenant ? each->tenant->bytes_held() : each->bytes;
    if (bytes != 0) found.push_back({each->kind, each->device, start, bytes});
  }
  return found;
}

std::optional<std::optional<address_map::touched>> address_map::try_find_touched(
    address at) const noexcept {
  const guard lock{mutex_, std::try_to_lock};
  if (!lock) return std::nullopt;
  std::optional<touched> found;
  const auto range = ranges_.upper_bound(at);
  if (range != ranges_.begin()) {
    const tracked_range& before = *std::prev(range)->second;
    if (before.kind == memory_kind::mapping && at - before.start < before.bytes) {
      found = touched{true, before.device, before.bytes};
      return found;
    }
  }
  const auto reserved = reservations_.upper_bound(at);
  if (reserved != reservations_.begin()) {
    const auto& [start, around] = *std::prev(reserved);
    if (at - start < around.bytes) found = touched{false, 0, around.bytes};
  }
  return found;
}

void address_map::show_mappings() {
  const guard lock{mutex_};
  for (const auto& [start, each] : ranges_) each->unseen_until = {};
}

tracked_range* address_map::range_at(address at) const {
  const auto after = ranges_.upper_bound(at);
  if (after == ranges_.begin()) return nullptr;
  tracked_range* const found = std::prev(after)->second.get();
  return at - found->start < found->extent_bytes ? found : nullptr;
}

std::pair<address, std::size_t> address_map::reservation_around(address mapped) {
  const guard lock{mutex_};
  const auto around = reservation_at(mapped);
  require(around != reservations_.end(), hipErrorNotFound);
  return {around->first, around->second.bytes};
}

address_map::reservation_map::iterator address_map::reservation_at(address at) {
  const auto after = reservations_.upper_bound(at);
  if (after == reservations_.begin()) return reservations_.end();
  const auto found = std::prev(after);
  return at - found->first < found->second.bytes ? found : reservations_.end();
}

void address_map::retire(guard& lock, std::span<tracked_range* const> ranges) {
  for (tracked_range* each : ranges) {
    each->changing = true;
    each->readers = 0;
    each->writers = 0;
  }
  changed_.wait(lock, [ranges] {
    return std::all_of(ranges.begin(), ranges.end(), [](const tracked_range* each) {
      return each->read_pins == 0 && each->write_pins == 0;
    });
  });
}

void address_map::end_change(std::span<tracked_range* const> ranges) {
  for (tracked_range* each : ranges) each->changing = false;
  changed_.notify_all();
}

bool address_map::is_synchronous(address at) const {
  const guard lock{mutex_};
  const tracked_range* const found = range_at(at);
  return found != nullptr && found->synchronous;
}

bool address_map::set_synchronous(address at, bool synchronous) {
  const guard lock{mutex_};
  tracked_range* const found = range_at(at);
  if (found == nullptr) return false;
  found->synchronous = synchronous;
  return true;
}

}  // namespace hipvmm::host_provider

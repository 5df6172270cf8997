// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <tuple>

#include "base/failure.hpp"
#include "base/fault_plan.hpp"
#include "memory/address_map.hpp"
#include "memory/tracked_range.hpp"

namespace hipvmm::host_provider {
namespace {

constexpr address last_address = std::numeric_limits<address>::max();

bool is_range(address start, std::size_t bytes) noexcept { return bytes <= last_address - start; }

int close(address start, std::size_t bytes) noexcept {
  void* const at = mmap(pointer_to(start), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return at == MAP_FAILED ? errno : 0;
}

}  // namespace

void address_map::map(address start, std::size_t bytes, const std::shared_ptr<chunk>& memory) {
  require(is_range(start, bytes));
  auto made = std::make_unique<tracked_range>(tracked_range{
      memory_kind::mapping, memory->device(), start, bytes, bytes, 0, 0, 0, memory, true, 0, 0});
  if (touch_ == host_touch::if_granted) {
    made->view = std::make_shared<const private_view>(*memory, bytes);
  }
  if (fault_plan::get().incoherent_aliases() && is_in_use(*memory)) {
    made->stale = std::make_shared<const stale_view>(*memory, bytes);
  }
  tracked_range* const mapped = made.get();
  const std::chrono::nanoseconds unseen = fault_plan::get().unseen();
  if (unseen.count() > 0) mapped->unseen_until = std::chrono::steady_clock::now() + unseen;
  bool keeps = false;
  {
    const guard lock{mutex_};
    const auto around = reservation_at(start);
    require(around != reservations_.end());
    require(start + bytes <= around->first + around->second.bytes);
    const auto next = ranges_.lower_bound(start);
    require(next == ranges_.end() || next->first >= start + bytes);
    require(range_at(start) == nullptr);
    const auto added = ranges_.emplace_hint(next, start, std::move(made));
    if (rules_.physical == memory_return::at_address_free) {
      try {
        keeps = around->second.kept.insert(memory).second;
      } catch (...) {
        ranges_.erase(added);
        throw;
      }
    }
    ++around->second.mappings;
    ++live(memory_kind::mapping);
  }
  void* const at = mmap(pointer_to(start), bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                        memory->file(), memory->offset());
  const int error = at == MAP_FAILED ? errno : 0;
  // A fixed mmap that fails may have removed the old pages.
  if (error != 0) close(start, bytes);
  const guard lock{mutex_};
  end_change({&mapped, 1});
  if (error == 0) return;
  reservation& around = reservation_at(start)->second;
  if (keeps) around.kept.erase(memory);
  --around.mappings;
  --live(memory_kind::mapping);
  ranges_.erase(start);
  throw failure{error_of_errno(error)};
}

std::vector<std::pair<address, std::size_t>> address_map::mapped_runs(address start,
                                                                      std::size_t bytes) {
  require(is_range(start, bytes));
  const guard lock{mutex_};
  const auto around = reservation_at(start);
  require(around != reservations_.end());
  require(start + bytes <= around->first + around->second.bytes);
  const tracked_range* const before = range_at(start);
  require(before == nullptr || before->start == start);
  std::vector<std::pair<address, std::size_t>> runs;
  for (auto at = ranges_.lower_bound(start); at != ranges_.end() && at->first < start + bytes;
       ++at) {
    const std::size_t more = at->second->bytes;
    require(more <= start + bytes - at->first);
    if (!runs.empty() && runs.back().first + runs.back().second == at->first) {
      runs.back().second += more;
    } else {
      runs.emplace_back(at->first, more);
    }
  }
  return runs;
}

std::size_t address_map::unmap(address start, std::size_t bytes) {
  if (rules_.unmap != unmap_rule::mapped_ones) return unmap_run(start, bytes);
  for (const auto& [at, length] : mapped_runs(start, bytes)) unmap_run(at, length);
  return bytes;
}

std::size_t address_map::unmap_run(address start, std::size_t bytes) {
  const bool first_counts = rules_.unmap == unmap_rule::first_counts;
  std::vector<std::unique_ptr<tracked_range>>
      removed;  // dies after the lock, with the last of its memory
  guard lock{mutex_};
  if (first_counts && range_at(start) == nullptr) {
    throw crash{
        "reads a null pointer for an address with nothing mapped",
        "ROCm/clr 6.2 to 6.4, hip_vm.cpp: the two tests of its arguments are joined by and"};
  }
  const std::vector<tracked_range*> leaving =
      mappings_in(lock, start, bytes, first_counts ? range_end::anywhere : range_end::exact);
  if (!first_counts && rules_.crossing == border_crossing::refused &&
      !is_within_one(start, leaving.back()->start)) {
    throw failure{hipErrorInvalidValue};
  }
  bytes = leaving.back()->start + leaving.back()->bytes - start;
  std::vector<std::pair<device_set, device_set>> rights;
  rights.reserve(leaving.size());
  removed.reserve(leaving.size());
  for (const tracked_range* each : leaving) rights.emplace_back(each->readers, each->writers);
  retire(lock, leaving);
  lock.unlock();
  const int error = close(start, bytes);
  lock.lock();
  end_change(leaving);
  if (error != 0) {
    for (std::size_t i = 0; i < leaving.size(); ++i) {
      std::tie(leaving[i]->readers, leaving[i]->writers) = rights[i];
    }
    throw failure{error_of_errno(error)};
  }
  for (const tracked_range* each : leaving) {
    // ROCR-Runtime#285: the reservation stays in use for the others.
    const bool counts = !first_counts || each == leaving.front();
    if (counts) --reservation_at(each->start)->second.mappings;
    --live(memory_kind::mapping);
    removed.push_back(std::move(ranges_.extract(each->start).mapped()));
  }
  lock.unlock();
  return bytes;
}

std::vector<tracked_range*> address_map::mappings_in(guard& lock, address start, std::size_t bytes,
                                                     range_end end) {
  require(end == range_end::anywhere || is_range(start, bytes));
  const address last = start + std::min(bytes, last_address - start);
  for (;;) {
    std::vector<tracked_range*> found;
    bool is_quiet = true;
    for (address at = start; at < last; at += found.back()->bytes) {
      const auto next = ranges_.find(at);
      const bool is_mapping = next != ranges_.end() && next->second->kind == memory_kind::mapping;
      const bool fits = is_mapping && next->second->bytes <= last - at;
      if (!fits && end == range_end::anywhere && !found.empty()) break;
      require(fits || (is_mapping && end != range_end::exact));
      found.push_back(next->second.get());
      is_quiet = is_quiet && !found.back()->changing;
    }
    if (is_quiet) return found;
    changed_.wait(lock);
  }
}

bool address_map::is_mapped(const chunk& memory, const stale_view* alias) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& entry) {
    const tracked_range& each = *entry.second;
    if (each.kind != memory_kind::mapping || each.memory.get() != &memory) return false;
    return alias == nullptr || each.stale == nullptr || each.stale->number() < alias->number();
  });
}

bool address_map::is_in_use(const chunk& memory) const {
  const guard lock{mutex_};
  return is_mapped(memory);
}

bool address_map::is_sum_from_first(address start, std::size_t bytes) {
  const auto& [first, around] = *reservation_at(start);
  std::size_t sum = 0;
  for (auto at = ranges_.lower_bound(first);
       sum < bytes && at != ranges_.end() && at->first < first + around.bytes; ++at)
    sum += at->second->bytes;
  return sum == bytes;
}

}  // namespace hipvmm::host_provider

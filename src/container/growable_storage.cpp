// SPDX-License-Identifier: MIT
#include <hipvmm/container/growable_storage.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/mr/memory_resource.hpp>
#include <hipvmm/mr/resource/per_device_resource.hpp>
#include "capability/capability.hpp"
#include "container/malloc_storage.hpp"
#include "container/region_storage.hpp"
#include "core/descriptors.hpp"
#include "core/error.hpp"
#include "core/logger.hpp"
#include "core/observers/memory_events.hpp"
#include "region/available.hpp"
#include "runtime/device.hpp"
#include "runtime/ends/refused_ends.hpp"
#include "runtime/stream.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/access.hpp"
#include "vmm/chunk_limit.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm {
namespace {

std::size_t default_max_bytes(device_ref device, const chunk_placement& placement) {
  std::size_t usable = 0;
  for (const device_ref each : detail::devices_of(placement, device))
    usable += detail::usable_memory(each);
  return usable;
}

std::unique_ptr<detail::storage_memory> reserve_memory(device_ref device,
                                                       const growth_options& options) try {
  require_device(device);
  const bool from_resource = options.resource != nullptr;
  if (from_resource) {
    const scoped_device scope{device};
    mr::require_current_device("growth_options::resource", options.resource);
  }
  const std::size_t wanted = options.max_bytes != 0
                                 ? options.max_bytes
                                 : default_max_bytes(device, options.chunks.placement);
  region_options chunks = options.chunks;
  const bool is_for_life = options.past_max == past_max_size::refuse;
  if (is_for_life) chunks.when_empty = empty_policy::keeps_addresses;
  const capability found = capability_of(device);
  const bool has_chunks = !from_resource && options.fallback != without_vmm::always &&
                          found.path() != memory_path::fallback;
  if (has_chunks) {
    const bool moves = detail::memory_strategy{device}.pins_memory && !is_for_life;
    const std::size_t reserved =
        options.max_bytes != 0 ? wanted : detail::address_share(device, wanted, wanted);
    auto result = std::make_unique<detail::region_storage>(
        region{device, reserved, chunks}, is_for_life ? detail::held_memory::stays_for_life
                                          : moves     ? detail::held_memory::moves_data
                                                      : detail::held_memory::stays);
    if (options.max_bytes > result->max_bytes())
      throw out_of_memory{exhausted::addresses, device.ordinal(), options.max_bytes,
                          result->max_bytes(),
                          "growth_options::max_bytes must be reserved in one piece; set less, or "
                          "zero for a share of the addresses that are left"};
    return result;
  }
  if (!from_resource && options.fallback == without_vmm::refuse)
    throw unsupported{
        "growth_options::fallback is refuse, and device " + std::to_string(device.ordinal()) +
        " offers no virtual memory management that can be used: " + found.why_fallback() +
        "; set it to without_vmm::use_hip_malloc for a vector that copies when it grows"};
  if (options.chunks.tag || options.chunks.registrar)
    throw unsupported{
        (options.chunks.tag
             ? std::string{"growth_options::chunks.tag: only chunks sleep"}
             : std::string{"growth_options::chunks.registrar: only chunks are registered"}) +
        ", and the vector has none: " + detail::why_no_chunks(device, options.resource) +
        "; leave the " + (options.chunks.tag ? "tag" : "registrar") + " out"};
  if (is_for_life && options.max_bytes == 0)
    throw unsupported{
        "growth_options::past_max is refuse, so the first growth takes the memory of max_bytes, "
        "which is 0: the vector on device " +
        std::to_string(device.ordinal()) + " has no chunks, because " +
        detail::why_no_chunks(device, options.resource) +
        "; set growth_options::max_bytes to the final size, or past_max to move"};
  return std::make_unique<detail::malloc_storage>(device, wanted, chunks, options.resource);
} catch (const std::length_error&) {
  throw std::length_error{"growth_options::max_bytes is " + std::to_string(options.max_bytes) +
                          ", which exceeds the address space in whole granules; set less, or "
                          "zero for a share of the addresses that are left"};
}

const growth_options& checked(const growth_options& options) {
  const grow_ahead_policy& policy = options.grow_ahead;
  if (policy.budget_bytes != 0 && policy.watermark_bytes > policy.budget_bytes)
    throw std::invalid_argument{"grow_ahead_policy::watermark_bytes is " +
                                std::to_string(policy.watermark_bytes) +
                                "; it must be at most budget_bytes, " +
                                std::to_string(policy.budget_bytes) + ", or that must be zero"};
  return options;
}

void report(const growable_storage& storage, memory_event_kind kind, std::size_t bytes,
            int peer = -1) noexcept {
  detail::report_event(
      {memory_event_source::vector, storage.event_id(), storage.device().ordinal()}, kind,
      {.address = detail::event_address(storage.data()), .bytes = bytes, .peer = peer});
}

void report_right(const growable_storage& storage, device_ref device, access_right right) noexcept {
  report(storage,
         right == access_right::none ? memory_event_kind::revoke : memory_event_kind::grant, 0,
         device.ordinal());
}

std::size_t granule_of(device_ref device, const growth_options& options) {
  constexpr std::size_t line = mr::memory_resource::default_alignment;
  allocation_granularity unit{line, line};
  if (options.resource == nullptr) {
    for (const device_ref each : detail::devices_of(options.chunks.placement, device)) {
      const allocation_granularity its = unit_of(capability_of(each));
      unit.minimum = std::max(unit.minimum, its.minimum);
      unit.recommended = std::max(unit.recommended, its.recommended);
    }
  } else if (options.granule_bytes == 0) {
    return line;
  }
  if (options.granule_bytes == 0)
    return std::max(2 * MiB, align_up(unit.recommended, unit.minimum));
  if (options.granule_bytes % unit.minimum != 0)
    throw std::invalid_argument{
        "growth_options::granule_bytes is " + std::to_string(options.granule_bytes) +
        "; it must be a multiple of the granularity, " + std::to_string(unit.minimum) + " bytes"};
  return options.granule_bytes;
}

}  // namespace

std::size_t growth_target(std::size_t committed_bytes, std::size_t needed_bytes,
                          std::size_t max_bytes, std::size_t granule, std::size_t step_limit,
                          std::size_t share) {
  const std::size_t slack = align_down(std::min(committed_bytes / share, step_limit), granule);
  return std::min(std::max(align_up(needed_bytes, granule), committed_bytes + slack), max_bytes);
}

std::size_t ahead_target(std::size_t committed_bytes, std::size_t needed_bytes,
                         std::size_t max_bytes, std::size_t granule, std::size_t step_limit,
                         const grow_ahead_policy& policy) {
  if (needed_bytes == 0) return 0;
  std::size_t budget = policy.budget_bytes;
  if (budget == 0) {
    budget = std::max({std::min(committed_bytes / 8, step_limit),
                       std::min(256 * MiB, max_bytes / 64), policy.watermark_bytes, granule});
  }
  const std::size_t watermark = policy.watermark_bytes != 0 ? policy.watermark_bytes : budget / 2;
  const std::size_t unused = committed_bytes - needed_bytes;
  if (unused >= watermark) return 0;
  const std::size_t room = max_bytes - committed_bytes;
  const std::size_t missing = budget - unused;
  return missing >= room ? room : std::min(align_up(missing, granule), room);
}

growable_storage::growable_storage(device_ref device, const growth_options& options)
    : event_id_{detail::next_event_id()},
      device_{device},
      options_{checked(options)},
      granule_{granule_of(device, options)},
      chunks_cost_descriptors_{detail::memory_strategy{device}.descriptors_per_chunk != 0},
      memory_{reserve_memory(device, options)} {}

growable_storage::~growable_storage() { retire_memory(); }

void* growable_storage::data() const noexcept { return memory_ ? memory_->base() : nullptr; }

std::size_t growable_storage::capacity_bytes() const noexcept {
  return held_bytes() - erased_bytes();
}

std::size_t growable_storage::max_bytes() const noexcept { return limit_bytes() - erased_bytes(); }

std::size_t growable_storage::erased_bytes() const noexcept {
  return memory_ ? memory_->erased_bytes() : 0;
}

std::size_t growable_storage::held_bytes() const noexcept {
  return memory_ ? memory_->committed_bytes() : 0;
}

std::size_t growable_storage::limit_bytes() const noexcept {
  return memory_ ? memory_->max_bytes() : 0;
}

growable_storage::growable_storage(growable_storage&& other) noexcept
    : event_id_{detail::next_event_id()},
      device_{other.device_},
      options_{other.options_},
      granule_{other.granule_},
      chunks_cost_descriptors_{other.chunks_cost_descriptors_},
      memory_{std::move(other.memory_)},
      counts_{std::exchange(other.counts_, {})},
      scratch_{std::move(other.scratch_)},
      scratch_in_graph_{std::exchange(other.scratch_in_graph_, false)} {}

growable_storage& growable_storage::operator=(growable_storage&& other) noexcept {
  if (this == &other) return *this;
  retire_memory();
  device_ = other.device_;
  options_ = other.options_;
  granule_ = other.granule_;
  chunks_cost_descriptors_ = other.chunks_cost_descriptors_;
  memory_ = std::move(other.memory_);
  counts_ = std::exchange(other.counts_, {});
  scratch_ = std::move(other.scratch_);
  scratch_in_graph_ = std::exchange(other.scratch_in_graph_, false);
  return *this;
}

void growable_storage::retire_memory() noexcept {
  retire_scratch();
  if (!memory_) return;
  memory_->retire();
  memory_.reset();
}

void growable_storage::grow(std::size_t bytes) {
  reserve(bytes, growth_slack::allowed);
  prepare_ahead(bytes == 0 ? 0 : erased_bytes() + bytes);
}

// Without chunks an address for life needs all memory at once.
bool growable_storage::has_fixed_address() const noexcept {
  return memory_ && !memory_->is_address_stable() && options_.past_max == past_max_size::refuse;
}

std::size_t growable_storage::exact_for(std::size_t bytes) const {
  if (has_fixed_address()) return limit_bytes();
  const std::size_t exact = align_up(bytes, granule_);
  return bytes <= limit_bytes() ? std::min(exact, limit_bytes()) : exact;
}

void growable_storage::reserve(std::size_t bytes, growth_slack slack) {
  require_awake("a growable vector");
  if (bytes <= capacity_bytes()) return;
  const detail::events_wait until_done;
  bytes = add_bytes(erased_bytes(), bytes);
  require_room(bytes);
  const std::size_t exact = exact_for(bytes);
  std::array targets{exact, exact, exact};
  // No slack if prepared memory is enough.
  if (slack == growth_slack::allowed && bytes <= limit_bytes() &&
      bytes > held_bytes() + memory_->cancel_or_wait()) {
    const auto target = [&](std::size_t share, std::size_t limit) {
      return std::max(exact,
                      growth_target(held_bytes(), bytes, limit_bytes(), granule_, limit, share));
    };
    targets[1] = target(8, step_limit());
    // Steps in proportion to the size keep the copies for each byte constant.
    const bool copies = !memory_->is_address_stable() && options_.step_limit != 0;
    targets[0] = copies ? target(2, std::numeric_limits<std::size_t>::max()) : targets[1];
  }
  for (auto next = targets.begin();; ++next) {
    if (next != targets.end() - 1 && *next == next[1]) continue;
    const std::size_t ready = held_bytes() + memory_->cancel_or_wait();
    const size_before before = sizes();
    counts_.peak_bytes = std::max(counts_.peak_bytes, ready);
    // Slack is not worth other objects' memory or a wait.
    std::optional<detail::without_asking_others> alone;
    std::optional<detail::without_reclaim> at_once;
    if (next != targets.end() - 1) {
      alone.emplace();
      at_once.emplace();
    }
    try {
      if (*next > limit_bytes()) {
        move_to_fit(*next);
      } else {
        memory_->commit(before.held, *next - before.held);
      }
      return count_growth(before, *next <= ready);
    } catch (const out_of_memory& error) {
      if (next != targets.end() - 1) continue;
      detail::log<log_level::error>([&] { return std::string{"a vector: "} + error.what(); });
      report(*this, memory_event_kind::out_of_memory, bytes);
      throw;
    }
  }
}

void growable_storage::count_growth(const size_before& before, bool was_ready) {
  ++counts_.growth_steps;
  if (options_.grow_ahead.prepare != prefetch_level::off)
    ++(was_ready ? counts_.ahead_hits : counts_.ahead_misses);
  count_move(before);
  counts_.peak_bytes = std::max(counts_.peak_bytes, held_bytes());
  // A move drops the erased bytes: the vector may hold less.
  const std::size_t grown = held_bytes() > before.held ? held_bytes() - before.held : 0;
  report(*this, memory_event_kind::grow, grown);
  detail::log<log_level::debug>([&] {
    return "a vector grew from " + format_bytes(before.held) + " to " + format_bytes(held_bytes()) +
           " of device " + std::to_string(device_.ordinal()) +
           (data() == before.data ? "" : ", to another address");
  });
}

// Mappings move without a copy; an allocation of `held` bytes lives until the bytes in use are
// copied to the next.
void growable_storage::count_move(const size_before& before) noexcept {
  if (before.data == nullptr || data() == nullptr || data() == before.data) return;
  ++counts_.base_moves;
  if (memory_->is_address_stable()) return;
  retire_scratch();  // graphs that use it use the old address too
  counts_.copied_bytes += std::min(before.used, capacity_bytes());
  counts_.peak_bytes = std::max(counts_.peak_bytes, before.held + held_bytes());
}

void growable_storage::require_room(std::size_t bytes) {
  if (!memory_) memory_ = reserve_memory(device_, options_);
  if (bytes > limit_bytes() && options_.past_max == past_max_size::refuse)
    throw std::length_error{"growth to " + format_bytes(bytes - erased_bytes()) + " exceeds the " +
                            format_bytes(max_bytes()) +
                            " reserved, and growth_options::past_max is refuse: set a larger "
                            "max_bytes, or let it move"};
}

void growable_storage::move_to_fit(std::size_t bytes) {
  const std::size_t twice = add_bytes(limit_bytes(), limit_bytes());
  if (!detail::attempt(
          [&] { memory_->extend(std::max(bytes, twice), bytes); },
          [&](const shortage& why) { return why.cause == exhausted::addresses && bytes < twice; }))
    memory_->extend(bytes, bytes);
}

void growable_storage::prepare_ahead(std::size_t bytes) {
  if (options_.grow_ahead.prepare == prefetch_level::off || !memory_) return;
  const auto wanted = [&](std::size_t limit) {
    return ahead_target(held_bytes(), bytes, limit_bytes(), granule_, limit, options_.grow_ahead);
  };
  // Calls step_limit(), which makes system calls, only for a new chunk.
  const bool is_due = memory_->prepared_bytes() == 0 && wanted(options_.step_limit) != 0;
  // An order of no bytes offers the prepared chunk to others that lack memory.
  memory_->prepare(is_due ? wanted(step_limit()) : 0, options_.grow_ahead.prepare);
}

// Steps of an eighth keep the number of chunks, and so of descriptors, a logarithm of the size.
std::size_t growable_storage::step_limit() const {
  if (chunks_cost_descriptors_ && detail::half_of_descriptors_used())
    return std::numeric_limits<std::size_t>::max();
  return options_.step_limit;
}

std::size_t growable_storage::shrink(std::size_t bytes, stream_ref stream, tail_chunk tail) {
  const detail::events_wait until_done;
  require_awake("a growable vector");
  const std::size_t scratch = release_scratch(stream);
  if (!memory_ || has_fixed_address()) return scratch;
  const size_before before = sizes();
  counts_.peak_bytes = std::max(counts_.peak_bytes, before.held + memory_->prepared_bytes());
  const bool is_for_life = options_.past_max == past_max_size::refuse;
  const std::size_t kept =
      bytes == 0 && !is_for_life
          ? 0
          : std::min(align_up(erased_bytes() + bytes, granule_), limit_bytes());
  const std::size_t released = memory_->trim(kept, stream, tail);
  count_move(before);
  if (released != 0) report(*this, memory_event_kind::trim, released);
  return released + scratch;
}

void growable_storage::undo_growth(std::size_t bytes) {
  if (bytes < capacity_bytes()) memory_->undo_commit(erased_bytes() + bytes);
}

void growable_storage::erase_front(std::size_t bytes, stream_ref stream, bool is_all) {
  if (bytes == 0) return;
  detail::require_not_captured("erase_front", stream);
  require_awake("a growable vector");
  const std::size_t before = held_bytes();
  if (is_all && options_.past_max == past_max_size::refuse) {
    memory_->erase_all(bytes, stream);
  } else {
    memory_->erase_front(bytes, stream);
  }
  const std::size_t released = before - held_bytes();
  if (released != 0) report(*this, memory_event_kind::trim, released);
}

void growable_storage::grant(device_ref device, access_right right) {
  if (!memory_) memory_ = reserve_memory(device_, options_);
  memory_->grant(device, right);
  report_right(*this, device, right);
}

void growable_storage::set_access(const access_list& rights) {
  if (!memory_) memory_ = reserve_memory(device_, options_);
  const access_map before = memory_->rights();
  memory_->set_access(rights);
  detail::for_each_change(before, memory_->rights(), [&](device_ref device, access_right right) {
    report_right(*this, device, right);
  });
}

growth_statistics growable_storage::statistics() const noexcept {
  growth_statistics now = counts_;
  now.scratch_bytes = scratch_bytes();
  if (!memory_) return now;
  now.chunks = memory_->chunk_count();
  now.ahead_bytes = memory_->prepared_bytes();
  now.ahead_failures = memory_->failed_preparations();
  now.peak_bytes = std::max(now.peak_bytes, held_bytes() + now.ahead_bytes + now.scratch_bytes);
  return now;
}

bool growable_storage::is_address_stable() const noexcept {
  return memory_ && (memory_->is_address_stable() || has_fixed_address());
}

bool growable_storage::has_chunks() const {
  if (!memory_ || !memory_->is_address_stable()) return false;
  static_cast<void>(detail::sleep_participant_of(memory_->chunk_region()));  // of this process
  return true;
}

growable_storage growable_storage::empty_copy() const {
  growable_storage result{device_, options_};
  if (!memory_) return result;
  // A device that move_range() brought chunks to may do the copying.
  std::vector<access_desc> writers;
  for (const device_ref each : owners())
    if (each != device_) writers.push_back({each, access_right::read_write});
  result.set_access(access_list{std::move(writers)});
  return result;
}

void growable_storage::share_rights(growable_storage& copy, stream_ref stream) const {
  if (!memory_) return;
  const access_map& all = memory_->rights();
  // HIP takes rights away at once, from copies under way too.
  for (const device_ref each : owners())
    if (all.get(each) != access_right::read_write) stream.synchronize();
  copy.set_access(all.list());
}

}  // namespace hipvmm

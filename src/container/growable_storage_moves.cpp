// SPDX-License-Identifier: MIT
#include <algorithm>
#include <stdexcept>
#include <utility>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "container/storage_memory.hpp"
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "core/error.hpp"
#include "region/sleep/memory_tag.hpp"  // IWYU pragma: keep, for tag_state
#include "runtime/peer_copies.hpp"
#include "runtime/pointer_memory.hpp"
#include "runtime/stream.hpp"
#include "strategy/memory_strategy.hpp"
#include "vmm/chunk_placement.hpp"

namespace hipvmm {
namespace {

constexpr std::size_t least_scratch = 2 * MiB;
constexpr std::size_t most_scratch = 32 * MiB;
// So few copies cost less than scratch memory, through which everything is copied twice.
constexpr std::size_t few_steps = 16;
// The accepted number of copies if memory is short.
constexpr std::size_t most_steps = 1024;

std::string path_line(const capability& found, without_vmm fallback) {
  if (fallback == without_vmm::always)
    return "hipMalloc and copies, because growth_options::fallback is without_vmm::always";
  switch (found.path()) {
    case memory_path::vmm:
      return "virtual memory management";
    case memory_path::vmm_with_quirks:
      return "virtual memory management with work-arounds";
    case memory_path::fallback:
      break;
  }
  return "hipMalloc and copies, for " + found.why_fallback();
}

}  // namespace

// The ranges of one copy must not overlap. So elements move in steps of the distance, or through
// scratch memory if these steps are many and small.
void growable_storage::move_within(std::size_t to, std::size_t from, std::size_t bytes,
                                   stream_ref stream) {
  require_awake("a growable vector");
  const std::size_t distance = to < from ? from - to : to - from;
  if (distance == 0 || bytes == 0) return;
  require_moves_in(stream);
  const std::size_t steps = bytes / distance;
  const bool is_twice =
      steps > few_steps && distance < least_scratch && get_scratch(bytes, steps, stream);
  const std::size_t step = is_twice ? scratch_bytes() : distance;
  auto* const base = static_cast<std::byte*>(data());
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(step, bytes - done);
    // A move to greater offsets begins at the end, to read each byte before it is overwritten.
    const std::size_t at = to < from ? done : bytes - done - count;
    const void* source = base + from + at;
    if (is_twice) {
      detail::copy_among_linked(stream, scratch_->base(), source, count);
      source = scratch_->base();
    }
    detail::copy_among_linked(stream, base + to + at, source, count);
    done += count;
  }
}

std::size_t growable_storage::scratch_bytes() const noexcept {
  return scratch_ ? scratch_->committed_bytes() : 0;
}

// Returns false if memory is short and the move goes without scratch memory, by `steps` copies.
bool growable_storage::get_scratch(std::size_t bytes, std::size_t steps, stream_ref stream) {
  const std::size_t held = held_bytes();
  const std::size_t unit = memory_->granularity();
  const std::size_t usual = std::min(align_up(least_scratch, unit), held);
  const std::size_t wanted = std::max(usual, std::min(align_up(held / 16, unit), most_scratch));
  const std::size_t least = std::min(usual, align_up(held / (most_steps / 2) + 1, unit));
  const auto back = [&] {
    if (!detail::attempt([&] { back_scratch(wanted); })) back_scratch(least);
  };
  const auto does_without = [&](const shortage&) {
    return steps <= most_steps || (scratch_ && bytes / scratch_bytes() <= most_steps);
  };
  const bool is_backed = detail::with_advice(
      [&] { return detail::attempt(back, does_without); },
      [&] {
        return "a vector of " + format_bytes(held) +
               " moves elements over a short distance through scratch memory, of " +
               format_bytes(least) + " at least; the vector stays as it was";
      });
  if (!is_backed && (!scratch_ || bytes / scratch_bytes() > most_steps)) return false;
  if (scratch_->rights() != memory_->rights()) scratch_->set_access(memory_->rights().list());
  scratch_in_graph_ = scratch_in_graph_ || stream.is_capturing();
  return true;
}

// Moves within one vector are ordered, so all use the same scratch memory. Launches of a graph use
// the memory's address, so it stays until the vector itself has another address.
void growable_storage::back_scratch(std::size_t bytes) {
  const std::size_t present = scratch_bytes();
  if (bytes <= present || (scratch_ && !scratch_->is_address_stable())) return;
  // HIP would refuse to allocate in a thread that captures.
  const detail::relaxed_captures relaxed;
  if (scratch_) return scratch_->commit(present, std::min(bytes, scratch_->max_bytes()) - present);
  region_options chosen = options_.chunks;
  chosen.shareable = handle_type::none;
  chosen.registrar = nullptr;
  chosen.when_empty = empty_policy::keeps_addresses;
  chosen.access = memory_->rights().list();
  std::unique_ptr<detail::storage_memory> made = memory_->another(most_scratch, chosen);
  made->commit(0, std::min(bytes, made->max_bytes()));
  scratch_ = std::move(made);
  counts_.peak_bytes =
      std::max(counts_.peak_bytes, held_bytes() + memory_->prepared_bytes() + scratch_bytes());
}

std::size_t growable_storage::release_scratch(stream_ref stream) {
  if (!scratch_ || scratch_in_graph_) return 0;
  const std::size_t released = scratch_->trim(0, stream, tail_chunk::keep);
  retire_scratch();
  return released;
}

void growable_storage::retire_scratch() noexcept {
  if (scratch_) scratch_->retire();
  scratch_.reset();
  scratch_in_graph_ = false;
}

bool growable_storage::is_asleep() const noexcept {
  return options_.chunks.tag && options_.chunks.tag->is_asleep();
}

void growable_storage::require_awake(const char* function) const {
  if (options_.chunks.tag) options_.chunks.tag->state()->require_awake(function);
  if (memory_) memory_->require_whole();
  if (scratch_) scratch_->require_whole();
}

std::vector<device_ref> growable_storage::owners() const {
  std::vector<device_ref> result = detail::devices_of(options_.chunks.placement, device_);
  // move_range() may have brought chunks to other devices.
  if (memory_)
    for (const device_ref each : memory_->rights().other_owners())
      if (std::ranges::find(result, each) == result.end()) result.push_back(each);
  return result;
}

// HIP reports chunks on the host as memory of device 0.
std::optional<device_ref> growable_storage::carrier_of_host_chunks() const {
  if (device_ == device_ref{0} || !memory_ || !memory_->is_address_stable()) return std::nullopt;
  for (const chunk_view& each : chunks())
    if (each.location.is_host()) {
      const std::optional<device_ref> named = detail::device_of_memory(each.address);
      return named == device_ ? std::nullopt : named;
    }
  return std::nullopt;
}

void growable_storage::require_moves_in(stream_ref stream) const {
  std::vector<device_ref> all = owners();
  if (const std::optional<device_ref> carrier = carrier_of_host_chunks()) {
    if (access(*carrier) != access_right::read_write)
      throw unsupported{
          "elements of a vector on device " + std::to_string(device_.ordinal()) +
          " with chunks on the host cannot move within it: HIP has device " +
          std::to_string(carrier->ordinal()) +
          " copy between such chunks, and that has no "
          "right to them; grant device " +
          std::to_string(carrier->ordinal()) +
          " read_write access to the vector first, or copy the elements to another vector"};
    all.push_back(*carrier);
  }
  if (!detail::copies_need_links()) return;
  for (const device_ref from : all) {
    for (const device_ref to : all) {
      const auto [result, call] = detail::require_links(stream, to, from);
      detail::check(result, call);
    }
  }
}

void growable_storage::require_copies_from(const void* source, stream_ref stream) {
  if (device_count() < 2) return;
  if (!memory_) memory_ = reserve_memory(device_, options_);  // after a move, for its rights
  const std::optional<device_ref> owner = detail::device_of_memory(source);
  if (!owner) return;
  for (const device_ref to : owners()) {
    if (*owner == to) continue;
    const auto [result, call] = detail::require_links(stream, *owner, to);
    detail::check(result, call);
    const capability known = capability_of(to);
    const detail::memory_strategy strategy{{{to, known}}};
    if (known.path() != memory_path::fallback && !strategy.peer_copies) {
      const auto refuse = [&](device_ref engine, const std::string& lack, const std::string& what) {
        const std::string name = "device " + std::to_string(engine.ordinal());
        throw unsupported{"a copy from memory of device " + std::to_string(owner->ordinal()) +
                          " into a vector with memory of device " + std::to_string(to.ordinal()) +
                          ": " + name + " makes the copy, and may not " + lack + " there (" +
                          strategy.peer_copies.reason() + "); grant " + name + what + " first"};
      };
      if (access(*owner) != access_right::read_write)
        refuse(*owner, "write", " read_write access to the vector");
      // In these two cases device `to` makes the copy.
      unsigned long long right = hipMemAccessFlagsProtRead;
      if ((!memory_->is_address_stable() || detail::device_of_stream(stream) == owner) &&
          detail::query_access(source, to, right) != hipSuccess)
        detail::clear_last_error();  // the source is of hipMalloc, which every engine reads
      if (right == hipMemAccessFlagsProtNone) refuse(to, "read", " read access to the source");
    }
    // From now on destruction must wait for both devices.
    detail::note_peer_copy(*owner, to);
  }
}

std::vector<chunk_access> growable_storage::effective_access() const {
  if (!memory_) return {};
  const region& mapped = memory_->chunk_region();
  return mapped.effective_access(0, mapped.max_bytes());
}

std::vector<chunk_view> growable_storage::chunks() const {
  return memory_ ? memory_->chunk_region().chunks() : std::vector<chunk_view>{};
}

std::vector<exported_chunk> growable_storage::export_chunks(std::uint64_t since) {
  return memory_ ? memory_->chunk_region().export_chunks(since) : std::vector<exported_chunk>{};
}

std::vector<exported_fabric_chunk> growable_storage::export_fabric_chunks(std::uint64_t since) {
  return memory_ ? memory_->chunk_region().export_fabric_chunks(since)
                 : std::vector<exported_fabric_chunk>{};
}

access_right growable_storage::access(device_ref device) const noexcept {
  return memory_ ? memory_->rights().get(device) : access_right::none;
}

std::size_t growable_storage::move_range(std::size_t offset, std::size_t bytes, memory_location to,
                                         stream_ref stream) {
  if (!memory_) {
    if (offset == 0 && bytes == 0) return 0;
    throw std::out_of_range{"move_range: " + std::to_string(bytes) + " bytes at offset " +
                            std::to_string(offset) + " of a vector that has no memory yet"};
  }
  const size_before before = sizes();
  const std::size_t moved = memory_->chunk_region().move_range(offset, bytes, to, stream);
  count_move(before);
  return moved;
}

std::string growable_storage::explain() const {
  const capability found = capability_of(device_);
  const bool from_resource = options_.resource != nullptr;
  std::string text =
      "device " + std::to_string(device_.ordinal()) + ", " + device_.name() + ": " +
      (from_resource ? "a memory resource and copies" : path_line(found, options_.fallback)) + "\n";
  const bool has_chunks = !from_resource && options_.fallback != without_vmm::always;
  for (const quirk each : has_chunks ? found.quirks() : std::vector<quirk>{})
    text += "work-around " + std::string{name_of(each)} + ": " + std::string{description_of(each)} +
            "\n";
  if (options_.chunks.tag)
    text += "sleeps by the tag " + options_.chunks.tag->name() +
            (is_asleep() ? ", and does so now\n" : "\n");
  if (!memory_) return text + "moved from: holds nothing\n";

  const bool is_mapped = memory_->is_address_stable();
  const std::size_t count = memory_->chunk_count();
  text += (is_mapped ? "reserved " : "at most ") + format_bytes(max_bytes()) + ", backed " +
          format_bytes(capacity_bytes()) + " in " + std::to_string(count) +
          (is_mapped ? " chunk" : " allocation") + (count == 1 ? "\n" : "s\n");
  if (has_fixed_address()) {
    text += "the first growth takes all of the memory; then only erase_front() changes data()\n";
  } else if (!is_mapped) {
    text += "data() changes when memory is added: " + std::to_string(counts_.base_moves) +
            " times so far, with " + format_bytes(counts_.copied_bytes) + " copied\n";
  } else if (options_.past_max == past_max_size::refuse) {
    text += "only erase_front() changes data()\n";
  } else {
    text += "data() stays the same within the reservation, and changed " +
            std::to_string(counts_.base_moves) + " times so far\n";
  }
  return text;
}

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
// Moves of elements within a growable_storage, and the scratch memory that they need.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "container/storage_memory.hpp"
#include "core/capture_mode.hpp"
#include "core/error.hpp"
#include "runtime/peer_copies.hpp"

namespace hipvmm {
namespace {

constexpr std::size_t least_scratch = 2 * MiB;
constexpr std::size_t most_scratch = 32 * MiB;
// So few copies cost less than the way through scratch memory, which copies everything twice.
constexpr std::size_t few_steps = 16;
// The accepted number of copies if the device has no memory left.
constexpr std::size_t most_steps = 1024;

}  // namespace

// A copy must not overlap itself. So a range is moved in steps of the distance, or twice through
// scratch memory if that would be many small steps.
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
    // Upwards from the end, so that nothing is overwritten before it was read.
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

// Returns false if there is no memory for it and `steps` copies do without.
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
               format_bytes(least) +
               " at least; the vector stays as it was: free memory of the device";
      });
  if (!is_backed && (!scratch_ || bytes / scratch_bytes() > most_steps)) return false;
  if (scratch_->rights() != memory_->rights()) scratch_->set_access(memory_->rights().list());
  scratch_in_graph_ = scratch_in_graph_ || stream.is_capturing();
  return true;
}

// Work that moves elements of one vector is in order, so that all of it can use the same scratch
// memory. Launches of a graph use its address: it stays until the vector has another address
// itself.
void growable_storage::back_scratch(std::size_t bytes) {
  const std::size_t present = scratch_bytes();
  if (bytes <= present || (scratch_ && !scratch_->is_address_stable())) return;
  // A thread that captures may make memory, which no captured work needs to wait for.
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

}  // namespace hipvmm

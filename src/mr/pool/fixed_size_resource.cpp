// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/fixed_size_resource.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include "core/check.hpp"
#include "mr/pool/allocator/small_blocks.hpp"
#include "mr/pool/backend/upstream_backend.hpp"
#include "mr/pool/pool_state.hpp"

namespace hipvmm::mr {
namespace {

/// Bytes that a block of `block_size` bytes occupies.
std::size_t bytes_held_by(std::size_t block_size) {
  return block_size <= pool::largest_small_block ? pool::classes.bytes[pool::classes.of(block_size)]
                                                 : block_size;
}

std::size_t size_of_blocks(std::size_t block_size, std::size_t count) {
  constexpr std::size_t most = pool::most_upstream_addresses;
  const std::size_t rounded = align_up(std::min(block_size, most + 1), pool::block_allocator::unit);
  if (block_size == 0 || count == 0 || bytes_held_by(rounded) > most / count)
    throw std::invalid_argument{"fixed_size_resource: " + std::to_string(count) + " blocks of " +
                                std::to_string(block_size) +
                                " bytes; there must be some, and not more than " +
                                format_bytes(most) + " in all"};
  return rounded;
}

std::string describe_blocks(const pool_statistics& now, std::size_t) {
  return "the blocks of this size hold " + format_bytes(now.reserved_current) + ", of which " +
         format_bytes(now.used_current) + " are in use: free blocks, or let the upstream have more";
}

}  // namespace

fixed_size_resource::fixed_size_resource(memory_resource* upstream, std::size_t block_size,
                                         std::size_t blocks_to_preallocate)
    : resource_adaptor{"fixed_size_resource", upstream},
      block_size_{size_of_blocks(block_size, blocks_to_preallocate)},
      held_bytes_{bytes_held_by(block_size_)} {
  const std::size_t slab = held_bytes_ * blocks_to_preallocate;
  state_ = std::make_unique<pool_state>(
      pool_messages{"fixed_size_resource", "the upstream", describe_blocks},
      upstream->device().value_or(device_ref::current()),
      std::make_unique<pool::upstream_backend>(*upstream, pool::most_upstream_addresses, slab),
      pool::most_upstream_addresses, pool_options{});
  state_->expect_all_devices();
  pool::stream_state& idle = state_->allocator.idle();
  state_->deallocate(idle, state_->allocate(idle, {slab, default_alignment}), slab);
}

fixed_size_resource::~fixed_size_resource() {
  if (is_of_parent())
    static_cast<void>(state_.release());
  else
    state_->finish();
}

pool_state& fixed_size_resource::live() const {
  require_own_process();
  return *state_;
}

void* fixed_size_resource::do_allocate_any(const request& wanted) {
  if (wanted.bytes > block_size_)
    throw out_of_memory{shortage{.cause = exhausted::limit,
                                 .device = state_->device.ordinal(),
                                 .requested = wanted.bytes,
                                 .available = block_size_,
                                 .owner = "fixed_size_resource::block_size",
                                 .most = block_size_,
                                 .context = "fixed_size_resource: its blocks have " +
                                            std::to_string(block_size_) +
                                            " bytes; take larger requests to another resource, as "
                                            "binning_resource does"}};
  return state_->allocate(wanted.stream, held_bytes_, wanted.alignment);
}

void fixed_size_resource::do_deallocate_any(void* pointer, const request& freed) noexcept {
  if (freed.bytes > block_size_)
    return state_->refuse(pointer, freed.bytes, "its blocks are smaller");
  detail::report_exceptions([&] { state_->deallocate(freed.stream, pointer, held_bytes_); });
}

fixed_size_resource::block_counts fixed_size_resource::statistics() const {
  const pool::allocator_statistics seen = live().allocator.usage_snapshot();
  return {seen.reserved_current / held_bytes_, seen.used_current / held_bytes_};
}

// As in arena_resource.
std::optional<device_ref> fixed_size_resource::do_device() const noexcept { return state_->device; }

std::size_t fixed_size_resource::trim_to(std::size_t blocks_to_keep,
                                         std::chrono::steady_clock::time_point deadline) {
  const std::size_t most = pool::most_upstream_addresses / held_bytes_;
  return live().allocator.trim(std::min(blocks_to_keep, most) * held_bytes_, deadline);
}

void fixed_size_resource::note_stream_wait(stream_ref waiter, stream_ref other) {
  live().note_stream_wait(waiter, other);
}

void fixed_size_resource::forget_stream(stream_ref stream) { live().allocator.forget(stream); }

std::uint64_t fixed_size_resource::event_id() const noexcept { return state_->event_id; }

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/arena_resource.hpp>

#include <algorithm>
#include <new>
#include <stdexcept>

#include <hipvmm/core/bytes.hpp>
#include "core/check.hpp"
#include "mr/pool/backend/upstream_backend.hpp"
#include "mr/pool/pool_state.hpp"

namespace hipvmm::mr {
namespace {

std::size_t limit_of_arena(std::optional<std::size_t> arena_size, device_ref device) {
  const std::size_t chosen = arena_size ? *arena_size : device.free_memory() / 2;
  const std::size_t limit =
      align_down(std::min(chosen, pool::most_upstream_addresses), pool::block_allocator::unit);
  if (limit == 0)
    throw std::invalid_argument{"arena_resource: an arena_size of " + std::to_string(chosen) +
                                " bytes holds nothing; it comes in units of " +
                                std::to_string(pool::block_allocator::unit)};
  return limit;
}

std::string describe_arena(const pool_statistics& now, std::size_t maximum) {
  return "the arena holds " + format_bytes(now.reserved_current) + " of at most " +
         format_limit(maximum) + ", of which " + format_bytes(now.used_current) +
         " are in use, and could serve " + format_bytes(now.largest_now) +
         " as they lie; superblocks that others still use serve no larger request";
}

}  // namespace

arena_resource::arena_resource(memory_resource* upstream, std::optional<std::size_t> arena_size,
                               bool dump_log_on_failure)
    : resource_adaptor{"arena_resource", upstream}, dumps_{dump_log_on_failure} {
  const device_ref owner = upstream->device().value_or(device_ref::current());
  const std::size_t limit = limit_of_arena(arena_size, owner);
  // Superblocks that come and go leave holes between the others.
  const std::size_t addresses = std::min(8 * limit, pool::most_upstream_addresses);
  state_ = std::make_unique<pool_state>(
      pool_messages{"arena_resource", "arena_resource::arena_size", describe_arena}, owner,
      std::make_unique<pool::upstream_backend>(*upstream, addresses, 0), limit, pool_options{});
  state_->expect_all_devices();
}

arena_resource::~arena_resource() {
  if (is_of_parent())
    static_cast<void>(state_.release());
  else
    state_->finish();
}

pool_state& arena_resource::live() const {
  require_own_process();
  return *state_;
}

void* arena_resource::do_allocate_any(const request& wanted) {
  try {
    return state_->allocate(wanted.stream, wanted.bytes, wanted.alignment);
  } catch (const std::bad_alloc&) {
    if (dumps_)
      detail::report_exceptions([&] {
        detail::warn("arena_resource", "a request of " + format_bytes(wanted.bytes) +
                                           " was refused: " + state_->report());
      });
    throw;
  }
}

void arena_resource::do_deallocate_any(void* pointer, const request& freed) noexcept {
  detail::report_exceptions([&] { state_->deallocate(freed.stream, pointer, freed.bytes); });
}

// The device, even if the upstream has none, because the pool's default streams belong to a device.
std::optional<device_ref> arena_resource::do_device() const noexcept { return state_->device; }

std::size_t arena_resource::trim_to(std::size_t bytes_to_keep,
                                    std::chrono::steady_clock::time_point deadline) {
  return live().allocator.trim(bytes_to_keep, deadline);
}

void arena_resource::note_stream_wait(stream_ref waiter, stream_ref other) {
  live().note_stream_wait(waiter, other);
}

void arena_resource::forget_stream(stream_ref stream) { live().allocator.forget(stream); }

pool_statistics arena_resource::statistics() const { return live().statistics(); }

std::string arena_resource::report() const { return live().report(); }

std::size_t arena_resource::arena_size() const noexcept { return state_->maximum; }

pool_snapshot arena_resource::snapshot() const { return live().snapshot(); }

std::uint64_t arena_resource::event_id() const noexcept { return state_->event_id; }

}  // namespace hipvmm::mr

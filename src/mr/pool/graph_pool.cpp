// SPDX-License-Identifier: MIT
#include <hipvmm/mr/pool/graph_pool.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/core/error.hpp>
#include <hipvmm/runtime/device.hpp>
#include "core/capture_mode.hpp"
#include "core/check.hpp"
#include "mr/pool/graph_blocks.hpp"

namespace hipvmm::mr {

struct graph_pool::state {
  static constexpr std::size_t most_recent = 64;  // far more than are under way at once

  explicit state(memory_resource& upstream) : blocks{upstream} { recent.reserve(most_recent); }

  /// Returns false for a capture that another one has followed.
  [[nodiscard]] bool enter(unsigned long long capture) noexcept {
    if (!recent.empty() && recent.back() == capture) return true;
    if (capture < first_known || std::ranges::find(recent, capture) != recent.end()) return false;
    if (recent.size() == most_recent) {
      first_known = std::max(first_known, recent.front() + 1);
      recent.erase(recent.begin());
    }
    recent.push_back(capture);
    ++captures;
    blocks.start_over();
    peak = used;
    return true;
  }
  /// `place`: the place of `stream`; none if it is unknown. Throws: std::invalid_argument.
  void deallocate(void* pointer, std::size_t bytes, stream_ref stream,
                  std::optional<detail::capture_place> place) {
    const std::lock_guard lock{mutex};
    const std::size_t held = blocks.size_of(pointer);
    if (held == 0 || held < bytes || held - bytes >= pool::graph_blocks::unit)
      throw std::invalid_argument{
          "graph_pool: " + std::to_string(bytes) + " bytes at " + detail::address_text(pointer) +
          " were not deallocated: no allocation of this size begins there; it may have been freed "
          "or released before"};
    used -= held;
    // The block may be of an earlier graph too: only streams ordered after this free may have it.
    if (!place)
      blocks.deallocate(pointer, pool::graph_blocks::reuse::after_another);
    else if (place->status == hipStreamCaptureStatusActive && enter(place->id))
      blocks.deallocate(pointer, stream, *std::move(place));
    else
      blocks.deallocate(pointer, pool::graph_blocks::reuse::after_the_capture);
  }

  std::mutex mutex;  // not held while the upstream allocates
  pool::graph_blocks blocks;
  // The last captures that used the pool, in order. HIP counts captures upwards.
  std::vector<unsigned long long> recent;
  unsigned long long first_known = 0;  // of lower ones it is unknown whether they were in `recent`
  std::uint64_t captures = 0;
  std::size_t used = 0;
  std::size_t peak = 0;
};

namespace {

detail::capture_place place_of(stream_ref stream, std::optional<device_ref> device) {
  std::optional<scoped_device> scope;
  if (device && stream.is_per_thread_default()) scope.emplace(*device);
  return detail::place_in_capture(stream.get());
}

}  // namespace

graph_pool::graph_pool(memory_resource* upstream)
    : resource_adaptor{"graph_pool", upstream}, state_{new state{*upstream}} {}

graph_pool::~graph_pool() {
  if (is_of_parent())
    static_cast<void>(state_.release());
  else
    release();
}

void* graph_pool::do_allocate(stream_ref stream, std::size_t bytes, std::size_t alignment) {
  const detail::capture_place place = place_of(stream, device());
  if (place.status == hipStreamCaptureStatusInvalidated)
    detail::throw_failure(hipErrorStreamCaptureInvalidated, "hipStreamGetCaptureInfo_v2",
                          "graph_pool: the stream's capture has failed: end it");
  if (place.status == hipStreamCaptureStatusNone)
    throw std::logic_error{
        "graph_pool: an allocation in a stream that is not being captured: each launch of a graph "
        "would overwrite the memory; allocate it from another resource"};
  for (;;) {
    {
      const std::lock_guard lock{state_->mutex};
      if (!state_->enter(place.id))
        throw std::logic_error{
            "graph_pool: an allocation of a capture after another one has begun to allocate or "
            "free: their graphs share memory, so capture one after the other, or use a graph_pool "
            "each"};
      if (void* const made = state_->blocks.try_allocate(bytes, alignment, stream, &place)) {
        state_->used += state_->blocks.size_of(made);
        state_->peak = std::max(state_->peak, state_->used);
        return made;
      }
    }
    // Another thread may take a part of the new segment first: then the loop goes on.
    const std::size_t segment = pool::graph_blocks::segment_bytes(bytes);
    void* const memory = get_upstream_resource()->allocate(stream, segment, alignment);
    if (memory == nullptr)
      throw out_of_memory{"graph_pool: the upstream resource gave nullptr for " +
                          std::to_string(segment) + " bytes"};
    const std::lock_guard lock{state_->mutex};
    state_->blocks.add_segment(memory, segment, alignment, std::nullopt);
  }
}

void* graph_pool::do_allocate_sync(std::size_t, std::size_t) {
  throw std::logic_error{
      "graph_pool: an allocation without a stream: each launch of a graph would overwrite the "
      "memory; name the stream that is being captured"};
}

void graph_pool::do_deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                               std::size_t) noexcept {
  std::optional<detail::capture_place> place;
  detail::report_exceptions([&] { place = place_of(stream, device()); });
  detail::report_exceptions([&] { state_->deallocate(pointer, bytes, stream, std::move(place)); });
}

void graph_pool::do_deallocate_sync(void* pointer, std::size_t bytes, std::size_t) noexcept {
  detail::report_exceptions([&] {
    state_->deallocate(pointer, bytes, stream_ref::legacy_default(), detail::capture_place{});
  });
}

void graph_pool::release() noexcept {
  if (is_of_parent()) return;
  pool::graph_blocks ended{*get_upstream_resource()};
  {
    const std::lock_guard lock{state_->mutex};
    state_->blocks.swap(ended);
    state_->used = 0;
  }
  ended.release();
}

graph_pool_statistics graph_pool::statistics() const {
  require_own_process();
  const std::lock_guard lock{state_->mutex};
  return {state_->blocks.held_bytes(), state_->used, state_->peak, state_->captures};
}

}  // namespace hipvmm::mr

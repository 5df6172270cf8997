// SPDX-License-Identifier: MIT
// The reports of each allocation of a pool: to the host provider's order checker, and as memory
// events. For the checker an allocation is noted after the pool has made it and a deallocation
// before: between the two nobody else can have the memory. The event of a deallocation is reported
// when it is known to be none that is refused, with the time from before.
#include <cstddef>
#include <exception>
#include <optional>

#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "core/observers/race_checker_calls.hpp"
#include "mr/pool/pool_state.hpp"

namespace hipvmm::mr {
namespace {

/// Calls `note` with `stream`, and without one if there is none or HIP fails. Default streams of
/// a pool are those of its device, for the checker those of the current one.
template <typename Note>
void note_in(std::optional<stream_ref> stream, device_ref device, Note note) noexcept {
  try {
    if (!stream) return note();
    std::optional<scoped_device> scope;
    if (stream->is_default() || stream->is_per_thread_default()) scope.emplace(device);
    note(stream->get());
  } catch (const std::exception&) {
    note();
  }
}

}  // namespace

void pool_state::note_allocation(void* pointer, std::optional<stream_ref> stream) {
  const auto made = allocator.find(*offset_of(pointer));
  if (!made) return;
  note_in(stream, device,
          [&](auto... in) { detail::note_allocation(pointer, made->bytes, in...); });
}

void pool_state::report_allocation(void* pointer, std::size_t bytes,
                                   std::optional<stream_ref> stream) {
  if (is_noted) note_allocation(pointer, stream);
  report_event(memory_event_kind::allocate, {.address = detail::event_address(pointer),
                                             .bytes = bytes,
                                             .stream = stream ? stream->get() : nullptr});
}

bool pool_state::deallocate_anywhere(void* pointer, std::size_t bytes,
                                     std::optional<stream_ref> stream) {
  return stream ? deallocate_in(*stream, pointer, bytes)
                : deallocate(allocator.all_streams(), pointer, bytes);
}

bool pool_state::deallocate_observed(void* pointer, std::size_t bytes,
                                     std::optional<stream_ref> stream) {
  const std::int64_t began = detail::event_time();
  const bool is_freed = is_noted ? deallocate_noted(pointer, bytes, stream)
                                 : deallocate_anywhere(pointer, bytes, stream);
  if (is_freed)
    report_event(memory_event_kind::deallocate, {.address = detail::event_address(pointer),
                                                 .bytes = bytes,
                                                 .stream = stream ? stream->get() : nullptr,
                                                 .time_ns = began});
  return is_freed;
}

bool pool_state::deallocate_noted(void* pointer, std::size_t bytes,
                                  std::optional<stream_ref> stream) {
  const std::optional<std::size_t> offset = offset_of(pointer);
  // If the pool refuses the call below, the memory has no bytes, or counts as allocated again.
  const auto known = offset ? allocator.find(*offset) : std::nullopt;
  const std::size_t held = known ? known->bytes : 0;
  if (held != 0)
    note_in(stream, device, [&](auto... in) { detail::note_deallocation(pointer, held, in...); });
  const bool is_freed = deallocate_anywhere(pointer, bytes, stream);
  if (held != 0 && !is_freed) detail::note_refused_deallocation(pointer, held);
  return is_freed;
}

}  // namespace hipvmm::mr

// SPDX-License-Identifier: MIT
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/container/slot_arena.hpp>
#include <hipvmm/container/slot_arena_options.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/configured_budget.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "core/observers/memory_events.hpp"

namespace hipvmm::c {
namespace {

/// Waits for other calls, except for the commit whose eviction callback makes this call.
template <typename Body>
hipvmm_status with_object(const char* function, hipvmm_slot_arena arena, Body body) noexcept {
  return guarded(function, [&] {
    const auto object = find<slot_arena_object>(arena);
    const detail::callbacks_wait until_unlocked;
    std::unique_lock lock{object->mutex, std::defer_lock};
    if (!object->mutex.is_of_caller() || !object->is_evicting) lock.lock();
    body(*object);
  });
}

template <typename Body>
hipvmm_status with_arena(const char* function, hipvmm_slot_arena arena, Body body) noexcept {
  return with_object(function, arena, [&](slot_arena_object& of) { body(of.slots); });
}

template <typename Body>
hipvmm_status with_arena_in(const char* function, hipvmm_slot_arena arena, void* stream,
                            Body body) noexcept {
  return with_arena(function, arena, [&](slot_arena& of) {
    const default_stream_scope current{of.device(), stream};
    body(of, stream_of(stream));
  });
}

/// While one lives, the thread that has the arena's lock may use it.
class evicting_scope {
 public:
  explicit evicting_scope(slot_arena_object& of) noexcept : of_{of} { of_.is_evicting = true; }
  ~evicting_scope() { of_.is_evicting = false; }
  evicting_scope& operator=(evicting_scope&&) = delete;

 private:
  slot_arena_object& of_;
};

void require_list(const std::size_t* list, std::size_t count, const char* name) {
  if (list == nullptr && count != 0)
    throw bad_argument{std::string{name} + " is null, and is to have " + std::to_string(count) +
                       " entries"};
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_slot_arena_create(int device, const char* options, hipvmm_slot_arena* arena) {
  return create(__func__, arena, "arena", [&] {
    const device_ref of = device_of(device);
    const slot_arena_options chosen = slot_settings(of, options);
    join_configured_budget(of, configured_budget(of));
    const auto make = [&] { return std::make_shared<slot_arena_object>(of, chosen); };
    return chosen.tag ? named_tag::of(chosen.tag->name()).add(make) : make();
  });
}

hipvmm_status hipvmm_slot_arena_destroy(hipvmm_slot_arena arena) {
  return guarded(__func__, [&] { destroy<slot_arena_object>(arena); });
}

hipvmm_status hipvmm_slot_arena_acquire(hipvmm_slot_arena arena, void* stream, size_t* slot) {
  return with_arena_in(__func__, arena, stream, [&](slot_arena& of, stream_ref in) {
    std::size_t& result = out(slot, "slot");  // throws before a slot is taken
    result = of.acquire(in);
  });
}

hipvmm_status hipvmm_slot_arena_commit(hipvmm_slot_arena arena, const size_t* slots,
                                       const size_t* lengths, size_t count, void* stream) {
  return with_arena_in(__func__, arena, stream, [&](slot_arena& of, stream_ref in) {
    require_list(slots, count, "slots");
    require_list(lengths, count, "lengths");
    of.commit(slots, lengths, count, in);
  });
}

hipvmm_status hipvmm_slot_arena_release(hipvmm_slot_arena arena, size_t slot, void* stream) {
  return with_arena_in(__func__, arena, stream,
                       [&](slot_arena& of, stream_ref in) { of.release(slot, in); });
}

hipvmm_status hipvmm_slot_arena_truncate(hipvmm_slot_arena arena, size_t slot, size_t length,
                                         void* stream) {
  return with_arena_in(__func__, arena, stream,
                       [&](slot_arena& of, stream_ref in) { of.truncate(slot, length, in); });
}

hipvmm_status hipvmm_slot_arena_share_prefix(hipvmm_slot_arena arena, size_t from, const size_t* to,
                                             size_t count, size_t length, void* stream) {
  return with_arena_in(__func__, arena, stream, [&](slot_arena& of, stream_ref in) {
    require_list(to, count, "to");
    of.share_prefix(from, to, count, length, in);
  });
}

hipvmm_status hipvmm_slot_arena_make_writable(hipvmm_slot_arena arena, size_t slot, size_t offset,
                                              size_t bytes, void* stream) {
  return with_arena_in(__func__, arena, stream, [&](slot_arena& of, stream_ref in) {
    of.make_writable(slot, offset, bytes, in);
  });
}

hipvmm_status hipvmm_slot_arena_pointer(hipvmm_slot_arena arena, size_t slot, size_t plane,
                                        void** pointer) {
  return with_arena(__func__, arena,
                    [&](slot_arena& of) { out(pointer, "pointer") = of.pointer(slot, plane); });
}

hipvmm_status hipvmm_slot_arena_length(hipvmm_slot_arena arena, size_t slot, size_t* bytes) {
  return with_arena(__func__, arena,
                    [&](slot_arena& of) { out(bytes, "bytes") = of.length(slot); });
}

hipvmm_status hipvmm_slot_arena_capacity(hipvmm_slot_arena arena, size_t slot, size_t* bytes) {
  return with_arena(__func__, arena,
                    [&](slot_arena& of) { out(bytes, "bytes") = of.capacity(slot); });
}

hipvmm_status hipvmm_slot_arena_in_use(hipvmm_slot_arena arena, size_t slot, int* in_use) {
  return with_arena(__func__, arena,
                    [&](slot_arena& of) { out(in_use, "in_use") = of.in_use(slot) ? 1 : 0; });
}

hipvmm_status hipvmm_slot_arena_slots_that_fit(hipvmm_slot_arena arena, size_t length,
                                               size_t* slots) {
  return with_arena(__func__, arena,
                    [&](slot_arena& of) { out(slots, "slots") = of.slots_that_fit(length); });
}

hipvmm_status hipvmm_slot_arena_set_eviction(hipvmm_slot_arena arena, hipvmm_evict_callback evict,
                                             void* argument) {
  return with_object(__func__, arena, [&](slot_arena_object& of) {
    if (evict == nullptr) return of.slots.set_eviction(nullptr);
    // No shared pointer: the commit that calls it keeps the object.
    of.slots.set_eviction([&of, evict, argument](std::size_t missing) {
      const evicting_scope may_call{of};
      require_ok("the eviction callback", [&] { return evict(missing, argument); });
    });
  });
}

hipvmm_status hipvmm_slot_arena_set_budget(hipvmm_slot_arena arena, size_t bytes) {
  return with_arena(__func__, arena, [&](slot_arena& of) { of.set_budget(bytes); });
}

hipvmm_status hipvmm_slot_arena_trim(hipvmm_slot_arena arena, size_t* released) {
  return with_arena(__func__, arena, [&](slot_arena& of) { out_if_wanted(released, of.trim()); });
}

hipvmm_status hipvmm_slot_arena_get_layout(hipvmm_slot_arena arena,
                                           hipvmm_slot_arena_layout* layout) {
  return with_arena(__func__, arena, [&](slot_arena& of) {
    copy_struct(layout,
                {sizeof *layout, of.base(), of.slots(), of.planes(), of.bytes_per_slot(),
                 of.slot_stride(), of.plane_stride(), of.block_bytes(), of.device().ordinal()},
                "layout");
  });
}

hipvmm_status hipvmm_slot_arena_get_statistics(hipvmm_slot_arena arena,
                                               hipvmm_slot_arena_statistics* statistics) {
  return with_arena(__func__, arena, [&](slot_arena& of) {
    const slot_arena_statistics now = of.statistics();
    copy_struct(statistics,
                {sizeof *statistics, now.slots_in_use, now.used_bytes, now.needed_bytes,
                 now.spare_bytes, now.kept_bytes, now.held_bytes, now.peak_held_bytes,
                 now.shared_bytes, now.budget_bytes, now.reserved_bytes, now.prefetched_blocks,
                 now.failed_prefetches, now.grown_blocks, now.moved_blocks, now.evictions},
                "statistics");
  });
}

}  // extern "C"

}  // namespace hipvmm::c

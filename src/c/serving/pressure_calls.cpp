// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/serving.h>
#include <hipvmm/vmm/idle/pressure_subscription.hpp>
#include "c/guard.hpp"
#include "c/handle_table.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"

namespace hipvmm::c {
namespace {

hipvmm_memory_change change_of(const std::optional<memory_event>& event) {
  if (!event) return {};
  hipvmm_change kind = HIPVMM_CHANGE_REFUSED;
  if (event->kind == memory_event_kind::grow) kind = HIPVMM_CHANGE_GROW;
  if (event->kind == memory_event_kind::trim) kind = HIPVMM_CHANGE_TRIM;
  return {kind,          static_cast<hipvmm_holder>(event->source), event->object,
          event->bytes,  reinterpret_cast<void*>(event->stream),    event->thread,
          event->time_ns};
}
static_assert(static_cast<int>(memory_event_source::vector) == HIPVMM_HOLDER_BUFFER);

hipvmm_pressure_note note_of(const pressure_note& from) {
  const hipvmm_exhausted bound = from.bound == exhausted::budget  ? HIPVMM_EXHAUSTED_BUDGET
                                 : from.bound == exhausted::limit ? HIPVMM_EXHAUSTED_LIMIT
                                                                  : HIPVMM_EXHAUSTED_DEVICE_MEMORY;
  return {sizeof(hipvmm_pressure_note),
          static_cast<hipvmm_pressure_level>(from.level),
          static_cast<hipvmm_pressure_level>(from.previous),
          bound,
          from.device,
          from.total_bytes,
          from.free_bytes,
          from.held_bytes,
          from.idle_bytes,
          from.largest_request,
          change_of(from.reason)};
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_pressure_subscribe(int device, const char* options,
                                        hipvmm_pressure_callback callback, void* argument,
                                        hipvmm_pressure* pressure) {
  return create(__func__, pressure, "pressure", [&] {
    const device_ref of = device_of(device);
    pressure_subscription::callback call;
    if (callback != nullptr)
      call = [callback, argument](const pressure_note& from) {
        const hipvmm_pressure_note note = note_of(from);
        callback(&note, argument);
      };
    return std::make_shared<pressure_object>(
        pressure_subscription{of, std::move(call), pressure_settings(of, options)});
  });
}

hipvmm_status hipvmm_pressure_end(hipvmm_pressure pressure) {
  return guarded(__func__, [&] {
    const auto ended = std::static_pointer_cast<pressure_object>(
        handle_table::shared().take(pressure_object::handle, pressure));
    ended->owned.end();  // also if another thread waits for a note
  });
}

hipvmm_status hipvmm_pressure_now(hipvmm_pressure pressure, hipvmm_pressure_note* note) {
  return guarded(__func__, [&] {
    copy_struct(note, note_of(find<pressure_object>(pressure)->owned.now()), "note");
  });
}

hipvmm_status hipvmm_pressure_wait(hipvmm_pressure pressure, unsigned milliseconds,
                                   hipvmm_pressure_note* note, int* came) {
  return guarded(__func__, [&] {
    const auto object = find<pressure_object>(pressure);
    int& result = out(came, "came");
    hipvmm_pressure_note none{};
    none.struct_size = sizeof none;
    copy_struct(note, none, "note");  // throws before a note is taken
    const auto next = object->owned.wait(std::chrono::milliseconds{milliseconds});
    result = next ? 1 : 0;
    if (next) copy_struct(note, note_of(*next), "note");
  });
}

hipvmm_status hipvmm_pressure_get_reasons(hipvmm_pressure pressure, hipvmm_memory_change* reasons,
                                          size_t capacity, size_t* count) {
  return guarded(__func__, [&] {
    const auto object = find<pressure_object>(pressure);
    if (reasons == nullptr && capacity != 0)
      throw bad_argument{"reasons is null, and has room for " + std::to_string(capacity)};
    std::size_t& result = out(count, "count");
    const std::vector<memory_event> events = object->owned.reasons();
    result = events.size();
    for (std::size_t i = 0; i < std::min(capacity, events.size()); ++i)
      reasons[i] = change_of(events[events.size() - 1 - i]);
  });
}

}  // extern "C"

}  // namespace hipvmm::c

// SPDX-License-Identifier: MIT
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include <hipvmm/hipvmm.h>
#include <hipvmm/capability/capability.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/core/error.hpp>
#include <hipvmm/core/logger.hpp>
#include <hipvmm/region/retirement.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/event.hpp>
#include <hipvmm/runtime/stream.hpp>
#include <hipvmm/version.hpp>
#include "c/guard.hpp"
#include "c/handle_table.hpp"
#include "c/objects.hpp"
#include "ipc/identity.hpp"
#include "region/sleep/memory_tag.hpp"
#include "runtime/device.hpp"
#include "strategy/memory_strategy.hpp"

namespace hipvmm::c {
namespace {

std::atomic<hipvmm_error_handler> program_handler{nullptr};

void call_program_handler(const char* call, int code, const char* message) noexcept {
  if (const hipvmm_error_handler handler = program_handler.load()) handler(call, code, message);
}

constexpr std::array<const char*, 7> level_names{"trace", "debug",    "info", "warn",
                                                 "error", "critical", "off"};

log_level level_of(const char* level) {
  const std::string_view name = level == nullptr ? "" : level;
  for (std::size_t i = 0; i < level_names.size(); ++i)
    if (name == level_names[i]) return static_cast<log_level>(i);
  throw bad_argument{"level is '" + std::string{name} +
                     "'; allowed: trace, debug, info, warn, error, critical, off"};
}

hipvmm_status copy_by(void (*call)(stream_ref, void*, const void*, std::size_t),
                      const char* function, void* destination, const void* source,
                      std::size_t bytes, void* stream) noexcept {
  return guarded(function, [&] {
    require_memory(destination, bytes, "destination");
    require_memory(source, bytes, "source");
    for (const void* const each : {static_cast<const void*>(destination), source})
      detail::require_awake_at(each, function);
    if (bytes != 0) call(stream_of(stream), destination, source, bytes);
  });
}

std::string describe(const capability& found) {
  std::string text = "path: " + std::string{name_of(found.path())} + "\n";
  if (!found.why_fallback().empty()) text += "why: " + found.why_fallback() + "\n";
  for (const quirk each : found.quirks())
    text += "quirk " + std::string{name_of(each)} + ": " + std::string{description_of(each)} + "\n";
  text += "granularity: " + format_bytes(found.minimum_granularity()) + ", recommended " +
          format_bytes(found.recommended_granularity()) + "\n";
  for (std::size_t i = 0; i < trait_count; ++i) {
    const auto which = static_cast<trait>(i);
    text += std::string{name_of(which)} + ": " + std::string{name_of(found[which])} + "\n";
  }
  return text + "origin: " + found.origin() + "\n";
}

}  // namespace

extern "C" {

int hipvmm_version() { return HIPVMM_C_VERSION; }

const char* hipvmm_version_text() { return HIPVMM_VERSION_STRING; }

const char* hipvmm_status_name(hipvmm_status status) {
  static constexpr std::array names{"ok",
                                    "invalid_argument",
                                    "invalid_handle",
                                    "out_of_memory",
                                    "unsupported",
                                    "out_of_range",
                                    "hip",
                                    "ipc",
                                    "system",
                                    "too_small",
                                    "internal",
                                    "invalid_state"};
  static_assert(names.size() == HIPVMM_ERROR_INVALID_STATE + 1);
  const auto index = static_cast<std::size_t>(status);
  return index < names.size() ? names[index] : "unknown";
}

const char* hipvmm_last_error() { return last_text(); }

hipvmm_status hipvmm_last_failure(hipvmm_failure* failure) {
  // A copy: a failure of this very call takes its place.
  return guarded(__func__, [&, last = last_failure()] { copy_struct(failure, last, "failure"); });
}

hipvmm_status hipvmm_live_handles(size_t* count) {
  return guarded(__func__, [&] { out(count, "count") = handle_table::shared().size(); });
}

hipvmm_status hipvmm_set_error_handler(hipvmm_error_handler handler) {
  return guarded(__func__, [&] {
    // Two threads must not mix their halves. Handlers run without the lock.
    static std::mutex mutex;
    const std::lock_guard lock{mutex};
    program_handler = handler;
    set_error_handler(handler == nullptr ? nullptr : call_program_handler);
  });
}

hipvmm_status hipvmm_set_logging_level(const char* level) {
  return guarded(__func__, [&] { default_logger().set_level(level_of(level)); });
}

hipvmm_status hipvmm_logging_level(const char** level) {
  return guarded(__func__, [&] {
    out(level, "level") = level_names[static_cast<std::size_t>(default_logger().level())];
  });
}

hipvmm_status hipvmm_log(const char* level, const char* line) {
  return guarded(__func__, [&] {
    if (line == nullptr) throw bad_argument{"line is null"};
    default_logger().log(level_of(level), line);
  });
}

hipvmm_status hipvmm_flush_log() {
  return guarded(__func__, [] { default_logger().flush(); });
}

hipvmm_status hipvmm_provider(const char** name) {
  return guarded(__func__, [&] { out(name, "name") = detail::provider_of_build(); });
}

hipvmm_status hipvmm_device_count(int* count) {
  return guarded(__func__, [&] { out(count, "count") = device_count(); });
}

hipvmm_status hipvmm_device_current(int* device) {
  return guarded(__func__, [&] { out(device, "device") = device_ref::current().ordinal(); });
}

hipvmm_status hipvmm_device_make_current(int device) {
  return guarded(__func__, [&] { hipvmm::detail::make_current(device_ref{device}); });
}

hipvmm_status hipvmm_device_name(int device, char* text, size_t capacity, size_t* length) {
  return guarded(__func__, [&] { copy_text(device_of(device).name(), text, capacity, length); });
}

hipvmm_status hipvmm_device_uuid(int device, char* text, size_t capacity, size_t* length) {
  return guarded(__func__,
                 [&] { copy_text(to_string(device_of(device).uuid()), text, capacity, length); });
}

hipvmm_status hipvmm_device_memory(int device, size_t* free_bytes, size_t* total_bytes) {
  return guarded(__func__, [&] {
    out(free_bytes, "free_bytes");
    out(total_bytes, "total_bytes");
    const auto [free_now, total] = available_device_memory(device_of(device));
    *free_bytes = free_now;
    *total_bytes = total;
  });
}

hipvmm_status hipvmm_device_can_access_peer(int device, int peer, int* can) {
  return guarded(__func__, [&] {
    out(can, "can") = device_of(device).can_access_peer(device_of(peer)) ? 1 : 0;
  });
}

hipvmm_status hipvmm_device_is_host_accessible(int device, int* accessible) {
  return guarded(__func__, [&] {
    out(accessible, "accessible") = detail::memory_strategy{device_ref{device}}.host_reads ? 1 : 0;
  });
}

hipvmm_status hipvmm_device_capability(int device, char* text, size_t capacity, size_t* length) {
  return guarded(__func__, [&] {
    copy_text(describe(capability_of(device_ref{device})), text, capacity, length);
  });
}

hipvmm_status hipvmm_device_synchronize(int device) {
  return guarded(__func__, [&] { device_of(device).synchronize(); });
}

hipvmm_status hipvmm_stream_create(int device, hipvmm_stream* stream) {
  return create(__func__, stream, "stream",
                [&] { return std::make_shared<stream_object>(hipvmm::stream{device_of(device)}); });
}

hipvmm_status hipvmm_stream_destroy(hipvmm_stream stream) {
  return guarded(__func__, [&] { destroy<stream_object>(stream); });
}

hipvmm_status hipvmm_stream_get(hipvmm_stream stream, void** value) {
  return guarded(__func__, [&] { out(value, "value") = find<stream_object>(stream)->owned.get(); });
}

hipvmm_status hipvmm_synchronize(void* stream) {
  return guarded(__func__, [&] { stream_of(stream).synchronize(); });
}

hipvmm_status hipvmm_per_thread_stream(void** stream) {
  return guarded(__func__, [&] { out(stream, "stream") = stream_ref::per_thread_default().get(); });
}

hipvmm_status hipvmm_event_create(int device, hipvmm_event* event) {
  return create(__func__, event, "event",
                [&] { return std::make_shared<event_object>(hipvmm::event{device_of(device)}); });
}

hipvmm_status hipvmm_event_destroy(hipvmm_event event) {
  return guarded(__func__, [&] { destroy<event_object>(event); });
}

hipvmm_status hipvmm_event_get(hipvmm_event event, void** value) {
  return guarded(__func__, [&] { out(value, "value") = find<event_object>(event)->owned.get(); });
}

hipvmm_status hipvmm_event_record(hipvmm_event event, void* stream) {
  return guarded(__func__, [&] { find<event_object>(event)->owned.record(stream_of(stream)); });
}

hipvmm_status hipvmm_event_is_done(hipvmm_event event, int* done) {
  return guarded(__func__,
                 [&] { out(done, "done") = find<event_object>(event)->owned.is_done() ? 1 : 0; });
}

hipvmm_status hipvmm_event_synchronize(hipvmm_event event) {
  return guarded(__func__, [&] { find<event_object>(event)->owned.synchronize(); });
}

hipvmm_status hipvmm_stream_wait(void* stream, hipvmm_event event) {
  return guarded(__func__, [&] { stream_of(stream).wait(find<event_object>(event)->owned); });
}

hipvmm_status hipvmm_copy_async(void* destination, const void* source, size_t bytes, void* stream) {
  return copy_by(copy_async, __func__, destination, source, bytes, stream);
}

hipvmm_status hipvmm_copy(void* destination, const void* source, size_t bytes, void* stream) {
  return copy_by(copy, __func__, destination, source, bytes, stream);
}

hipvmm_status hipvmm_fill_async(void* destination, int value, size_t bytes, void* stream) {
  return guarded(__func__, [&] {
    require_memory(destination, bytes, "destination");
    if (value < 0 || value > 255)
      throw bad_argument{"value is " + std::to_string(value) + ", and must be 0 to 255"};
    detail::require_awake_at(destination, "hipvmm_fill_async");
    if (bytes != 0)
      fill_async(stream_of(stream), destination, static_cast<unsigned char>(value), bytes);
  });
}

hipvmm_status hipvmm_drain_retired_memory() {
  return guarded(__func__, [] { drain_retired_memory(); });
}

}  // extern "C"

}  // namespace hipvmm::c

// SPDX-License-Identifier: MIT
#include <cstddef>
#include <memory>
#include <utility>

#include <hipvmm/serving.h>
#include <hipvmm/region/sleep/evictable.hpp>
#include <hipvmm/vmm/access.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"

namespace hipvmm::c {
namespace {

template <typename Body>
hipvmm_status with_stream(const char* function, hipvmm_evictable evictable, void* stream,
                          Body body) noexcept {
  return guarded(function, [&] {
    const auto object = find<evictable_object>(evictable);
    const default_stream_scope scope{object->owned.device(), stream};
    body(object->owned, stream_of(stream));
  });
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_evictable_create(const char* tag, int device, const char* options,
                                      hipvmm_fill_callback fill, void* argument,
                                      hipvmm_evictable* evictable) {
  return create(__func__, evictable, "evictable", [&] {
    if (tag == nullptr) throw bad_argument{"tag is null, and is to name one"};
    evictable_options chosen = evictable_settings(options);
    if (fill != nullptr)
      chosen.fill = [fill, argument](stream_ref stream) {
        require_ok("the function that fills", [&] { return fill(stream.get(), argument); });
      };
    return std::make_shared<evictable_object>(
        hipvmm::evictable{named_tag::of(tag).get(), device_of(device), std::move(chosen)});
  });
}

hipvmm_status hipvmm_evictable_destroy(hipvmm_evictable evictable) {
  return guarded(__func__, [&] { destroy<evictable_object>(evictable); });
}

hipvmm_status hipvmm_evictable_use(hipvmm_evictable evictable, void* stream, int writes) {
  return with_stream(__func__, evictable, stream, [&](auto& memory, stream_ref in) {
    memory.use(in, writes != 0 ? access_right::read_write : access_right::read);
  });
}

hipvmm_status hipvmm_evictable_done(hipvmm_evictable evictable, void* stream) {
  return with_stream(__func__, evictable, stream,
                     [](auto& memory, stream_ref in) { memory.done(in); });
}

hipvmm_status hipvmm_evictable_prefetch(hipvmm_evictable evictable, void* stream) {
  return with_stream(__func__, evictable, stream,
                     [](auto& memory, stream_ref in) { memory.prefetch(in); });
}

hipvmm_status hipvmm_evictable_get_statistics(hipvmm_evictable evictable,
                                              hipvmm_evictable_statistics* statistics) {
  return guarded(__func__, [&] {
    const evictable_statistics now = find<evictable_object>(evictable)->owned.statistics();
    copy_struct(statistics,
                {sizeof *statistics, now.evictions, now.returns, now.evicted_bytes,
                 now.returned_bytes, now.refused_in_use, now.refused_by_failure},
                "statistics");
  });
}

hipvmm_status hipvmm_evictable_reason(hipvmm_evictable evictable, char* text, size_t capacity,
                                      size_t* length) {
  return guarded(__func__, [&] {
    copy_text(find<evictable_object>(evictable)->owned.statistics().reason, text, capacity, length);
  });
}

}  // extern "C"

}  // namespace hipvmm::c

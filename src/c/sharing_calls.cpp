// SPDX-License-Identifier: MIT
#include <chrono>
#include <memory>
#include <mutex>

#include <hipvmm/hipvmm.h>
#include <hipvmm/ipc/attached_region.hpp>
#include <hipvmm/ipc/publication.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "core/observers/memory_events.hpp"

namespace hipvmm::c {
namespace {

template <typename Body>
hipvmm_status with_attachment(const char* function, hipvmm_attachment attachment,
                              Body body) noexcept {
  return with_locked<attachment_object>(function, attachment,
                                        [&](attachment_object& of) { body(of.value); });
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_buffer_publish(hipvmm_buffer buffer, const char* path, const char* options,
                                    hipvmm_publication* publication) {
  return guarded(__func__, [&] {
    const auto object = find<buffer_object>(buffer);
    create(publication, "publication", [&] {
      publishing_settings settings = publication_settings(options);
      const detail::callbacks_wait until_unlocked;
      const std::lock_guard lock{object->mutex};
      return std::make_shared<publication_object>(
          hipvmm::publication{path_of(path), object->bytes.device(), object->bytes.max_size(),
                              settings.elements, std::move(settings.options)});
    });
  });
}

hipvmm_status hipvmm_publication_keep(const char* from, const char* path, const char* options,
                                      hipvmm_publication* publication) {
  return create(__func__, publication, "publication", [&] {
    return std::make_shared<publication_object>(
        hipvmm::publication::keep(path_of(from), path_of(path), keeping_settings(options)));
  });
}

hipvmm_status hipvmm_publication_destroy(hipvmm_publication publication) {
  return guarded(__func__, [&] { destroy<publication_object>(publication); });
}

hipvmm_status hipvmm_publication_announce(hipvmm_publication publication, hipvmm_buffer buffer,
                                          void* stream) {
  return guarded(__func__, [&] {
    const auto object = find<publication_object>(publication);
    const auto memory = find<buffer_object>(buffer);
    // In this order everywhere.
    const detail::callbacks_wait until_unlocked;
    const std::lock_guard lock{object->mutex};
    const std::lock_guard memory_lock{memory->mutex};
    const default_stream_scope current{memory->bytes.device(), stream};
    object->value.announce(memory->bytes, stream_of(stream));
  });
}

hipvmm_status hipvmm_publication_importers(hipvmm_publication publication, size_t* count) {
  return with_locked<publication_object>(__func__, publication, [&](publication_object& of) {
    out(count, "count") = of.value.importers();
  });
}

hipvmm_status hipvmm_attach(const char* path, const char* options, hipvmm_attachment* attachment) {
  return create(__func__, attachment, "attachment", [&] {
    const attaching_settings settings = attachment_settings(options);
    return std::make_shared<attachment_object>(
        attached_region{path_of(path), settings.options, settings.elements});
  });
}

hipvmm_status hipvmm_attachment_destroy(hipvmm_attachment attachment) {
  return guarded(__func__, [&] { destroy<attachment_object>(attachment); });
}

hipvmm_status hipvmm_attachment_refresh(hipvmm_attachment attachment, void* stream, size_t* bytes) {
  return with_attachment(__func__, attachment, [&](attached_region& memory) {
    const default_stream_scope current{memory.device(), stream};
    out_if_wanted(bytes, memory.refresh(stream_of(stream)));
  });
}

hipvmm_status hipvmm_attachment_wait(hipvmm_attachment attachment, size_t bytes,
                                     unsigned milliseconds, void* stream, int* reached) {
  return with_attachment(__func__, attachment, [&](attached_region& memory) {
    out(reached, "reached") = 0;
    const default_stream_scope current{memory.device(), stream};
    *reached =
        memory.wait_for(bytes, std::chrono::milliseconds{milliseconds}, stream_of(stream)) ? 1 : 0;
  });
}

hipvmm_status hipvmm_attachment_data(hipvmm_attachment attachment, void** data) {
  return with_attachment(__func__, attachment,
                         [&](attached_region& memory) { out(data, "data") = memory.data(); });
}

hipvmm_status hipvmm_attachment_size(hipvmm_attachment attachment, size_t* bytes) {
  return with_attachment(__func__, attachment,
                         [&](attached_region& memory) { out(bytes, "bytes") = memory.bytes(); });
}

hipvmm_status hipvmm_attachment_device(hipvmm_attachment attachment, int* device) {
  return with_attachment(__func__, attachment, [&](attached_region& memory) {
    out(device, "device") = memory.device().ordinal();
  });
}

hipvmm_status hipvmm_attachment_is_open(hipvmm_attachment attachment, int* open) {
  return with_attachment(__func__, attachment, [&](attached_region& memory) {
    out(open, "open") = memory.is_open() ? 1 : 0;
  });
}

}  // extern "C"

}  // namespace hipvmm::c

// SPDX-License-Identifier: MIT
#include <memory>
#include <stdexcept>
#include <string>

#include <hipvmm/hipvmm.h>
#include <hipvmm/container/device_span.hpp>
#include <hipvmm/container/growable_device_vector.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/runtime/copy.hpp>
#include <hipvmm/runtime/device.hpp>
#include <hipvmm/runtime/stream.hpp>
#include "c/configured_budget.hpp"
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"

namespace hipvmm::c {
namespace {

using vector = growable_device_vector<unsigned char>;

template <typename Body>
hipvmm_status with_buffer(const char* function, hipvmm_buffer buffer, Body body) noexcept {
  return with_locked<buffer_object>(function, buffer, [&](buffer_object& of) { body(of.bytes); });
}

template <typename Body>
hipvmm_status with_buffer_in(const char* function, hipvmm_buffer buffer, void* stream,
                             Body body) noexcept {
  return with_buffer(function, buffer, [&](vector& of) {
    const default_stream_scope current{of.device(), stream};
    body(of, stream_of(stream));
  });
}

/// For calls that use the memory without a call of the vector.
void require_awake(const vector& bytes, const char* function) {
  if (bytes.is_asleep())
    throw std::logic_error{std::string{function} + ": the memory sleeps: call hipvmm_resume first"};
  bytes.require_awake(function);
}

void require_range(const vector& bytes, std::size_t offset, std::size_t count) {
  if (offset > bytes.size() || count > bytes.size() - offset)
    throw std::out_of_range{std::to_string(count) + " bytes from offset " + std::to_string(offset) +
                            " on are beyond the size of the buffer, " +
                            std::to_string(bytes.size())};
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_buffer_create(int device, const char* options, hipvmm_buffer* buffer) {
  return create(__func__, buffer, "buffer", [&] {
    const device_ref of = device_of(device);
    const growth_options chosen = buffer_settings(of, options);
    join_configured_budget(of, configured_budget(of));
    const auto make = [&] { return std::make_shared<buffer_object>(nullptr, of, chosen); };
    return chosen.chunks.tag ? named_tag::of(chosen.chunks.tag->name()).add(make) : make();
  });
}

hipvmm_status hipvmm_buffer_create_on(hipvmm_resource resource, const char* options,
                                      hipvmm_buffer* buffer) {
  return guarded(__func__, [&] {
    auto source = find(resource);
    create(buffer, "buffer", [&] {
      const device_ref device = device_of(*source->resource);
      growth_options settings = buffer_settings(device, options);
      settings.resource = source->resource;
      return std::make_shared<buffer_object>(std::move(source), device, settings);
    });
  });
}

hipvmm_status hipvmm_buffer_destroy(hipvmm_buffer buffer) {
  return guarded(__func__, [&] { destroy<buffer_object>(buffer); });
}

hipvmm_status hipvmm_buffer_size(hipvmm_buffer buffer, size_t* bytes) {
  return with_buffer(__func__, buffer, [&](vector& of) { out(bytes, "bytes") = of.size(); });
}

hipvmm_status hipvmm_buffer_capacity(hipvmm_buffer buffer, size_t* bytes) {
  return with_buffer(__func__, buffer, [&](vector& of) { out(bytes, "bytes") = of.capacity(); });
}

hipvmm_status hipvmm_buffer_max_size(hipvmm_buffer buffer, size_t* bytes) {
  return with_buffer(__func__, buffer, [&](vector& of) { out(bytes, "bytes") = of.max_size(); });
}

hipvmm_status hipvmm_buffer_data(hipvmm_buffer buffer, void** data) {
  return with_buffer(__func__, buffer, [&](vector& of) { out(data, "data") = of.data(); });
}

hipvmm_status hipvmm_buffer_device(hipvmm_buffer buffer, int* device) {
  return with_buffer(__func__, buffer,
                     [&](vector& of) { out(device, "device") = of.device().ordinal(); });
}

hipvmm_status hipvmm_buffer_is_address_stable(hipvmm_buffer buffer, int* stable) {
  return with_buffer(__func__, buffer,
                     [&](vector& of) { out(stable, "stable") = of.is_address_stable() ? 1 : 0; });
}

hipvmm_status hipvmm_buffer_reserve(hipvmm_buffer buffer, size_t bytes) {
  return with_buffer(__func__, buffer, [&](vector& of) { of.reserve(bytes); });
}

hipvmm_status hipvmm_buffer_resize(hipvmm_buffer buffer, size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream,
                        [&](vector& of, stream_ref in) { of.resize(bytes, in); });
}

hipvmm_status hipvmm_buffer_resize_uninitialized(hipvmm_buffer buffer, size_t bytes) {
  return with_buffer(__func__, buffer, [&](vector& of) { of.resize_uninitialized(bytes); });
}

hipvmm_status hipvmm_buffer_append(hipvmm_buffer buffer, const void* source, size_t bytes,
                                   void* stream) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    require_memory(source, bytes, "source");
    of.append(static_cast<const unsigned char*>(source), bytes, in);
  });
}

hipvmm_status hipvmm_buffer_append_from_device(hipvmm_buffer buffer, const void* source,
                                               size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    require_memory(source, bytes, "source");
    of.append_from_device(
        device_span<const unsigned char>{static_cast<const unsigned char*>(source), bytes}, in);
  });
}

hipvmm_status hipvmm_buffer_erase_front(hipvmm_buffer buffer, size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream,
                        [&](vector& of, stream_ref in) { of.erase_front(bytes, in); });
}

hipvmm_status hipvmm_buffer_insert(hipvmm_buffer buffer, size_t offset, const void* source,
                                   size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    require_memory(source, bytes, "source");
    of.insert(offset,
              device_span<const unsigned char>{static_cast<const unsigned char*>(source), bytes},
              in);
  });
}

hipvmm_status hipvmm_buffer_erase(hipvmm_buffer buffer, size_t offset, size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream,
                        [&](vector& of, stream_ref in) { of.erase(offset, bytes, in); });
}

hipvmm_status hipvmm_buffer_shrink(hipvmm_buffer buffer, hipvmm_tail tail, void* stream,
                                   size_t* released) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    if (tail != HIPVMM_TAIL_KEEP && tail != HIPVMM_TAIL_REPLACE)
      throw bad_argument{"tail is " + std::to_string(static_cast<int>(tail)) +
                         ", which is no hipvmm_tail"};
    out_if_wanted(released, of.shrink_to_fit(in, tail == HIPVMM_TAIL_REPLACE ? tail_chunk::replace
                                                                             : tail_chunk::keep));
  });
}

hipvmm_status hipvmm_buffer_read(hipvmm_buffer buffer, size_t offset, void* destination,
                                 size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    require_awake(of, "hipvmm_buffer_read");
    require_range(of, offset, bytes);
    require_memory(destination, bytes, "destination");
    if (bytes != 0) copy(in, destination, of.data() + offset, bytes);
  });
}

hipvmm_status hipvmm_buffer_write(hipvmm_buffer buffer, size_t offset, const void* source,
                                  size_t bytes, void* stream) {
  return with_buffer_in(__func__, buffer, stream, [&](vector& of, stream_ref in) {
    require_awake(of, "hipvmm_buffer_write");
    require_range(of, offset, bytes);
    require_memory(source, bytes, "source");
    if (bytes != 0) copy_async(in, of.data() + offset, source, bytes);
  });
}

hipvmm_status hipvmm_buffer_get_statistics(hipvmm_buffer buffer,
                                           hipvmm_buffer_statistics* statistics) {
  return with_buffer(__func__, buffer, [&](vector& of) {
    const growth_statistics now = of.statistics();
    copy_struct(statistics,
                {sizeof *statistics, now.growth_steps, now.base_moves, now.chunks, now.peak_bytes,
                 now.ahead_bytes, now.ahead_hits, now.ahead_misses, now.copied_bytes},
                "statistics");
  });
}

hipvmm_status hipvmm_buffer_explain(hipvmm_buffer buffer, char* text, size_t capacity,
                                    size_t* length) {
  return with_buffer(__func__, buffer,
                     [&](vector& of) { copy_text(of.explain(), text, capacity, length); });
}

hipvmm_status hipvmm_buffer_grant(hipvmm_buffer buffer, int device, hipvmm_right right) {
  return with_buffer(__func__, buffer,
                     [&](vector& of) { of.grant(device_ref{device}, right_of(right)); });
}

hipvmm_status hipvmm_buffer_set_access(hipvmm_buffer buffer, const hipvmm_access* access,
                                       size_t count) {
  return with_buffer(__func__, buffer, [&](vector& of) { of.set_access(list_of(access, count)); });
}

hipvmm_status hipvmm_buffer_access(hipvmm_buffer buffer, int device, hipvmm_right* right) {
  return with_buffer(__func__, buffer, [&](vector& of) {
    out(right, "right") = right_of(of.access(device_of(device)));
  });
}

}  // extern "C"

}  // namespace hipvmm::c

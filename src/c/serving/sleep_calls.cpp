// SPDX-License-Identifier: MIT
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <hipvmm/hipvmm.h>
#include <hipvmm/serving.h>
#include <hipvmm/region/memory_checkpoint.hpp>
#include <hipvmm/region/region_options.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "c/guard.hpp"
#include "c/objects.hpp"
#include "c/settings.hpp"
#include "region/sleep/memory_tag.hpp"

namespace hipvmm::c {
namespace {

keep keep_of(hipvmm_keep what) {
  if (static_cast<unsigned>(what) > HIPVMM_KEEP_MAPPED)
    throw bad_argument{"keep is " + std::to_string(static_cast<int>(what)) +
                       ", which is no hipvmm_keep"};
  static_assert(static_cast<int>(keep::mapped) == HIPVMM_KEEP_MAPPED);
  return static_cast<keep>(what);
}

using suspend_call = std::size_t (*)(const memory_tag&, keep, const suspend_options&);

hipvmm_status suspend_tag(const char* function, const char* tag, hipvmm_keep what,
                          const char* options, std::optional<void*> stream, size_t* bytes,
                          const hipvmm_suspend_range* ranges = nullptr, size_t count = 0,
                          suspend_call call = suspend) noexcept {
  return guarded(function, [&] {
    named_tag& named = named_tag::find(tag);
    const keep kept = keep_of(what);
    suspend_options chosen = suspend_settings(options);
    if (stream) chosen.stream = stream_of(*stream);
    if (count != 0 && ranges == nullptr)
      throw bad_argument{"ranges is null, and has " + std::to_string(count)};
    for (const hipvmm_suspend_range* each = ranges; each != ranges + count; ++each)
      chosen.ranges.push_back({each->address, each->bytes, keep_of(each->keep)});
    named.with_all([&](const memory_tag& of) { out_if_wanted(bytes, call(of, kept, chosen)); });
  });
}

}  // namespace

extern "C" {

hipvmm_status hipvmm_suspend(const char* tag, hipvmm_keep keep, const char* options,
                             size_t* bytes) {
  return suspend_tag(__func__, tag, keep, options, std::nullopt, bytes);
}

hipvmm_status hipvmm_suspend_in_stream(const char* tag, hipvmm_keep keep, const char* options,
                                       void* stream, size_t* bytes) {
  return suspend_tag(__func__, tag, keep, options, stream, bytes);
}

hipvmm_status hipvmm_suspend_ranges(const char* tag, hipvmm_keep keep,
                                    const hipvmm_suspend_range* ranges, size_t count,
                                    const char* options, void* const* stream, size_t* bytes) {
  const auto in = stream == nullptr ? std::nullopt : std::optional{*stream};
  return suspend_tag(__func__, tag, keep, options, in, bytes, ranges, count);
}

hipvmm_status hipvmm_prepare_suspend(const char* tag, hipvmm_keep keep,
                                     const hipvmm_suspend_range* ranges, size_t count,
                                     size_t* bytes) {
  return suspend_tag(__func__, tag, keep, nullptr, std::nullopt, bytes, ranges, count,
                     prepare_suspend);
}

hipvmm_status hipvmm_resume(const char* tag, size_t* bytes) {
  return guarded(__func__, [&] {
    named_tag::find(tag).with_all([&](const memory_tag& of) { out_if_wanted(bytes, resume(of)); });
  });
}

hipvmm_status hipvmm_tag_get_statistics(const char* tag, hipvmm_tag_statistics* statistics) {
  return guarded(__func__, [&] {
    named_tag::find(tag).with_all([&](const memory_tag& of) {
      const tag_statistics now = of.statistics();
      copy_struct(statistics,
                  {sizeof *statistics, now.regions, now.bytes_asleep, now.bytes_on_host,
                   now.bytes_on_disk, now.is_asleep ? 1 : 0, now.bytes_mapped},
                  "statistics");
    });
  });
}

hipvmm_status hipvmm_checkpoint_save(const char* tag, const char* path, const char* notes,
                                     void* const* stream, size_t* bytes) {
  return guarded(__func__, [&] {
    named_tag& named = named_tag::find(tag);
    const auto in = stream == nullptr ? std::nullopt : std::optional{stream_of(*stream)};
    named.with_all([&](const memory_tag& of) {
      out_if_wanted(bytes, save_checkpoint(of, path_of(path), notes == nullptr ? "" : notes, in));
    });
  });
}

hipvmm_status hipvmm_checkpoint_load(const char* path, int device, const char* tag,
                                     hipvmm_checkpoint* checkpoint) {
  return create(__func__, checkpoint, "checkpoint", [&] {
    region_options options;
    if (tag != nullptr) options.tag = named_tag::of(tag).get();
    const auto make = [&] {
      auto made = std::make_shared<checkpoint_object>();
      made->loaded = load_checkpoint(path_of(path), device_of(device), options);
      return made;
    };
    return tag != nullptr ? named_tag::of(tag).add(make) : make();
  });
}

hipvmm_status hipvmm_checkpoint_notes(hipvmm_checkpoint checkpoint, char* text, size_t capacity,
                                      size_t* length) {
  return guarded(__func__, [&] {
    copy_text(find<checkpoint_object>(checkpoint)->loaded.notes, text, capacity, length);
  });
}

hipvmm_status hipvmm_checkpoint_destroy(hipvmm_checkpoint checkpoint) {
  return guarded(__func__, [&] { destroy<checkpoint_object>(checkpoint); });
}

hipvmm_status hipvmm_require_awake(const void* address) {
  return guarded(__func__, [&] { detail::require_awake_at(address, "hipvmm_require_awake"); });
}

}  // extern "C"

}  // namespace hipvmm::c

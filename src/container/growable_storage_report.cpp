// SPDX-License-Identifier: MIT
// The reports of growable_storage for people.
#include <string>
#include <vector>

#include <hipvmm/capability/capability.hpp>
#include <hipvmm/container/growable_storage.hpp>
#include <hipvmm/core/bytes.hpp>
#include <hipvmm/region/sleep/memory_tag.hpp>
#include "container/storage_memory.hpp"

namespace hipvmm {
namespace {

std::string path_line(const capability& found, without_vmm fallback) {
  if (fallback == without_vmm::always)
    return "hipMalloc and copies, because growth_options::fallback is without_vmm::always";
  switch (found.path()) {
    case memory_path::vmm:
      return "virtual memory management";
    case memory_path::vmm_with_quirks:
      return "virtual memory management with work-arounds";
    case memory_path::fallback:
      break;
  }
  return "hipMalloc and copies, for " + found.why_fallback();
}

}  // namespace

std::string growable_storage::explain() const {
  const capability found = capability_of(device_);
  const bool from_resource = options_.resource != nullptr;
  std::string text =
      "device " + std::to_string(device_.ordinal()) + ", " + device_.name() + ": " +
      (from_resource ? "a memory resource and copies" : path_line(found, options_.fallback)) + "\n";
  const bool has_chunks = !from_resource && options_.fallback != without_vmm::always;
  for (const quirk each : has_chunks ? found.quirks() : std::vector<quirk>{})
    text += "work-around " + std::string{name_of(each)} + ": " + std::string{description_of(each)} +
            "\n";
  if (options_.chunks.tag)
    text += "sleeps by the tag " + options_.chunks.tag->name() +
            (is_asleep() ? ", and does so now\n" : "\n");
  if (!memory_) return text + "moved from: holds nothing\n";

  const bool is_mapped = memory_->is_address_stable();
  const std::size_t count = memory_->chunk_count();
  text += (is_mapped ? "reserved " : "at most ") + format_bytes(max_bytes()) + ", backed " +
          format_bytes(capacity_bytes()) + " in " + std::to_string(count) +
          (is_mapped ? " chunk" : " allocation") + (count == 1 ? "\n" : "s\n");
  if (is_pinned()) {
    text += "data() stays for life from the first growth on, which takes all of the memory\n";
  } else if (!is_mapped) {
    text += "data() changes when memory is added: " + std::to_string(counts_.base_moves) +
            " times so far, with " + format_bytes(counts_.copied_bytes) + " copied\n";
  } else if (options_.past_max == past_max_size::refuse) {
    text += "data() stays for life\n";
  } else {
    text += "data() stays the same within the reservation, and changed " +
            std::to_string(counts_.base_moves) + " times so far\n";
  }
  return text;
}

}  // namespace hipvmm

// SPDX-License-Identifier: MIT
// Facts that the provider can report at any time, compared with the model's.
#include <hipvmm/provider/host_control.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep.hpp"
#include "provider_calls.hpp"

namespace hipvmm::test::model {
namespace {

std::string place_text(address at) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%zx", at);
  return text;
}

/// The right of host code to the byte, found out without a signal: the kernel answers for a pointer
/// it must not follow.
int host_right(const std::array<int, 2>& pipe, address at) {
  if (::write(pipe[1], pointer_to(at), 1) != 1) return hipMemAccessFlagsProtNone;
  if (::read(pipe[0], pointer_to(at), 1) == 1) return hipMemAccessFlagsProtReadWrite;
  std::byte drained{};
  while (::read(pipe[0], &drained, 1) < 0 && errno == EINTR) {
  }
  return hipMemAccessFlagsProtRead;
}

}  // namespace

void lockstep::compare_totals() {
  hipvmm_host_counters given{};
  hipvmm_host_get_counters(&given);
  const object_counts expected = model_.counts();
  const auto compare = [this](const char* what, std::size_t got, std::size_t wanted) {
    if (got != wanted)
      differ(std::string{what} + ": " + std::to_string(got) + ", the model says " +
             std::to_string(wanted));
  };
  compare("live handles", given.handles, expected.handles);
  compare("live reservations", given.reservations, expected.reservations);
  compare("live mappings", given.mappings, expected.mappings);
  compare("live allocations", given.allocations, expected.allocations);
  compare("descriptors held", given.descriptors, expected.descriptors);
  for (int device = 0; device < device_count; ++device) {
    const std::size_t used = model_.used_bytes(device);
    compare("bytes of a device in use", hipvmm_host_device_bytes(device), used);
    use_device(device);
    std::size_t free_bytes = 0;
    std::size_t all = 0;
    if (hipMemGetInfo(&free_bytes, &all) != hipSuccess) differ("hipMemGetInfo failed");
    compare("free bytes of a device", free_bytes, model_.of().device_bytes - used);
    compare("bytes of a device", all, model_.of().device_bytes);
  }
}

void lockstep::compare_mapping(address start, const mapping& each) {
  int shared = each.host_right;
  int reader = -1;
  for (int device = 0; device < device_count; ++device) {
    const int right = model_.right_of(each, device);
    if (model_.rules().host_shares_rights) shared = std::max(shared, right);
    const bool may_read = !model_.rules().owner_copies || model_.find(each.of)->device == device;
    if (right != hipMemAccessFlagsProtNone && may_read) reader = device;
    const access_entry location{hipMemLocationTypeDevice, device, 0};
    for (const address at : {start, start + each.bytes - 1}) {
      unsigned long long flags = 99;
      if (ask_access(&flags, &location, at) != hipSuccess ||
          flags != static_cast<unsigned long long>(right))
        differ("at " + place_text(at) + " device " + std::to_string(device) + " has the right " +
               std::to_string(flags) + ", the model says " + std::to_string(right));
    }
  }
  const bool has_host_rights = use_ != provider_use::runtime;
  for (const address at : {start, start + each.bytes - 1}) {
    const int right = has_host_rights ? host_right(pipe_, at) : shared;
    if (right != shared)
      differ("at " + place_text(at) + " the host has the right " + std::to_string(right) +
             ", the model says " + std::to_string(shared));
  }
  if (use_ == provider_use::runtime) {
    // The release decides which of them makes the copy.
    const chunk& of = *model_.find(each.of);
    if (model_.rules().peer_access_grants_mappings && of.device != of.told.device) return;
    reader = of.told.device;
    for (const int device : {of.device, of.told.device})
      if (model_.right_of(each, device) == hipMemAccessFlagsProtNone ||
          !reaches(device, of.told.device))
        return;
  }
  if (reader < 0) return;
  std::vector<std::size_t> pages = model_.find(each.of)->memory->written_pages(each.bytes);
  pages.push_back(each.bytes - model_memory::page);  // most often nobody wrote it
  std::vector<std::byte> given(model_memory::page);
  use_device(reader);
  for (const std::size_t page : pages) {
    const address at = start + page;
    if (hipMemcpyDtoH(given.data(), pointer_to(at), given.size()) != hipSuccess ||
        given != model_.contents(at, given.size()))
      differ("other bytes in the page at " + place_text(at));
  }
}

void lockstep::compare_host_area(const slot_values::range& range) {
  const std::vector<std::byte> expected = model_.contents(range.start, range.bytes);
  if (std::memcmp(pointer_to(range.start), expected.data(), expected.size()) != 0)
    differ("other bytes in host memory");
}

void lockstep::compare_granularity() {
  const hipMemAllocationProp properties = chunk_on(device_count - 1);
  const std::size_t minimum = model_.of().granularity;
  const bool has_any = model_.rules().has_virtual_memory;
  for (const auto& [option, granularity] :
       {std::pair{hipMemAllocationGranularityMinimum, minimum},
        {hipMemAllocationGranularityRecommended,
         model_.rules().recommended_granularity.value_or(minimum)}}) {
    const std::size_t expected = has_any ? granularity : 0;
    std::size_t given = 0;
    if (hipMemGetAllocationGranularity(&given, &properties, option) != hipSuccess ||
        given != expected)
      differ("the granularity " + std::to_string(given) + ", the model says " +
             std::to_string(expected));
  }
}

std::optional<std::string> lockstep::compare_all() {
  compare_granularity();
  for (const auto& [start, each] : model_.mappings()) compare_mapping(start, each);
  for (const auto& [start, each] : model_.areas()) {
    if (each.kind != area_kind::device) {
      compare_host_area({start, each.bytes});
      continue;
    }
    std::vector<std::byte> given(each.bytes);
    if (hipMemcpyDtoH(given.data(), pointer_to(start), given.size()) != hipSuccess ||
        given != model_.contents(start, given.size()))
      differ("other bytes in hipMalloc memory");
  }
  if (use_ == provider_use::runtime) return difference_;
  for (const auto& [start, each] : model_.reservations())
    for (const address at : {start, start + each.bytes - 1})
      if (model_.mapping_at(at) == nullptr && host_right(pipe_, at) != hipMemAccessFlagsProtNone)
        differ("the host may touch " + place_text(at) + ", where nothing is mapped");
  return difference_;
}

std::optional<std::string> lockstep::give_back() {
  while (!model_.mappings().empty()) {
    const auto& [start, each] = *model_.mappings().begin();
    if (hipMemUnmap(pointer_to(start), each.bytes) != hipSuccess) {
      differ("a mapping that cannot be unmapped");
      return difference_;
    }
    model_.unmapped(start, each.bytes);
  }
  for (std::uint8_t slot = 0; slot < descriptor_slots; ++slot) close_descriptor(slot);
  const auto is_held = [](const auto& each) { return each.second.references > 0; };
  for (;;) {
    const auto& chunks = model_.chunks();
    const auto held = std::find_if(chunks.begin(), chunks.end(), is_held);
    if (held == chunks.end()) break;
    if (hipMemRelease(held->first) != hipSuccess) {
      differ("a handle that cannot be released");
      return difference_;
    }
    model_.released(held->first);
  }
  if (use_ == provider_use::runtime) outlast_commands();
  const auto reservations = model_.reservations();
  for (const auto& [start, each] : reservations) {
    // Nobody can give these back.
    if (each.is_busy || each.is_lost) continue;
    if (hipMemAddressFree(pointer_to(start), each.bytes) != hipSuccess)
      differ("a reservation that cannot be freed");
    model_.addresses_freed(start);
  }
  std::vector<address> allocated;
  for (const auto& [start, each] : model_.areas())
    if (each.kind == area_kind::device) allocated.push_back(start);
  for (const address start : allocated) {
    if (hipFree(pointer_to(start)) != hipSuccess) differ("memory that cannot be freed");
    model_.allocation_freed(start);
  }
  if (use_ == provider_use::alone) compare_totals();
  return difference_;
}

}  // namespace hipvmm::test::model

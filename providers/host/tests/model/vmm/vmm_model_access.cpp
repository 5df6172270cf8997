// SPDX-License-Identifier: MIT
// Rights, and the ways back from an address or a descriptor to a chunk.
#include <algorithm>

#include "vmm_model.hpp"

namespace hipvmm::test::model {
// -- hipMemSetAccess, hipMemGetAccess ------------------------------------------------------------

std::size_t vmm_model::reach_of_access(address at, std::size_t bytes) const {
  if (!rules_.access_may_end_inside) return bytes;
  std::size_t reach = 0;
  for (auto each = mappings_.find(at); each != mappings_.end() && reach < bytes; ++each) {
    if (each->first != at + reach) break;
    reach += each->second.bytes;
  }
  return reach < bytes ? bytes : reach;
}

bool vmm_model::is_sum_from_first(address at, std::size_t bytes) const {
  const auto within = containing(reservations_, at);
  if (within == reservations_.end()) return false;
  std::size_t sum = 0;
  for (auto each = mappings_.lower_bound(within->first);
       sum < bytes && each != mappings_.end() && each->first - within->first < within->second.bytes;
       ++each)
    sum += each->second.bytes;
  return sum == bytes;
}

bool vmm_model::is_host_place(int location_type, int id) const {
  if (location_type == host_node_location) return id >= 0 && id < rules_.host_nodes;
  return location_type == host_location && rules_.host != model_rules::host_place::none;
}

bool vmm_model::is_host_entry(const access_entry& entry) const {
  return is_host_place(entry.location_type, entry.device);
}

bool vmm_model::entry_is_known(const access_entry& entry) const {
  const bool has_flags = entry.flags == hipMemAccessFlagsProtNone ||
                         entry.flags == hipMemAccessFlagsProtRead ||
                         entry.flags == hipMemAccessFlagsProtReadWrite;
  const bool is_device = exists(entry.device) && (!rules_.access_checks_location ||
                                                  entry.location_type == hipMemLocationTypeDevice);
  return has_flags && (is_device || is_host_entry(entry));
}

/// Whether the host is named for memory that only devices may have rights to.
bool vmm_model::entry_is_for_host_alone(address at, std::size_t bytes,
                                        const access_entry& entry) const {
  if (!is_host_entry(entry) || rules_.host == model_rules::host_place::any_memory) return false;
  for (auto each = mappings_.find(at); each != mappings_.end() && each->first - at < bytes; ++each)
    if (!find(each->second.of)->is_on_host()) return true;
  return false;
}

bool vmm_model::entry_gains_without_link(address at, std::size_t bytes,
                                         const access_entry& entry) const {
  if (entry.flags == hipMemAccessFlagsProtNone || is_host_entry(entry)) return false;
  for (auto each = mappings_.find(at); each != mappings_.end() && each->first - at < bytes;
       ++each) {
    const chunk& of = *find(each->second.of);
    if (!of.is_on_host() && !reaches(entry.device, of.device)) return true;
  }
  return false;
}

verdict vmm_model::set_access(address at, std::size_t bytes, const access_entry* entries,
                              std::size_t count) const {
  verdict judged;
  judged.require(entries != nullptr && count != 0, "at least one entry");
  judged.require(at != 0 && bytes != 0, "an address and bytes");
  if (!rules_.has_virtual_memory) return judged;
  const std::size_t reach = reach_of_access(at, bytes);
  const bool is_whole = are_whole_mappings(at, reach);
  judged.require(is_whole, "exactly whole mappings");
  judged.require(!rules_.access_sums_from_first || is_sum_from_first(at, bytes),
                 "the length of the first mappings of the reservation together");
  for (std::size_t i = 0; entries != nullptr && i < count; ++i) {
    const access_entry& entry = entries[i];
    judged.require(entry_is_known(entry), "device location, existing device, known flags");
    // Of a device that is named twice the last entry counts, so only that one can gain a right.
    const bool is_last =
        rules_.access_applies_until_bad ||
        std::none_of(entries + i + 1, entries + count, [&](const access_entry& later) {
          return !is_host_entry(later) && later.device == entry.device;
        });
    if (!is_whole || !entry_is_known(entry)) continue;
    judged.require(!entry_is_for_host_alone(at, reach, entry), "memory of the host, for the host",
                   hipErrorNotSupported);
    if (is_last)
      judged.require(!entry_gains_without_link(at, reach, entry), "a link to each owner",
                     rules_.access_without_link);
  }
  return judged;
}

void vmm_model::access_set(address at, std::size_t bytes, const access_entry* entries,
                           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (rules_.access_applies_until_bad && !set_access(at, bytes, entries + i, 1).takes_effect())
      return;
    const std::size_t reach = reach_of_access(at, bytes);
    for (auto each = mappings_.find(at); each != mappings_.end() && each->first - at < reach;
         ++each) {
      int& right = is_host_entry(entries[i])
                       ? each->second.host_right
                       : each->second.rights[static_cast<std::size_t>(entries[i].device)];
      right = entries[i].flags;
    }
  }
}

verdict vmm_model::get_access(bool result, const access_entry* location, address at) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(location != nullptr, "a location");
  judged.require(at != 0, "an address");
  judged.require(mapping_at(at) != nullptr || !rules_.has_virtual_memory, "a mapped address");
  if (location != nullptr && rules_.has_virtual_memory)
    judged.require(location->location_type == hipMemLocationTypeDevice && exists(location->device),
                   "an existing device");
  return judged;
}

int vmm_model::right_of(const mapping& of, int device) const {
  return of.rights[static_cast<std::size_t>(device)];
}

// -- hipMemRetainAllocationHandle, hipMemGetAllocationPropertiesFromHandle -----------------------

verdict vmm_model::retain(bool result, address at) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(mapping_at(at) != nullptr, "a mapped address");
  return judged;
}

handle vmm_model::retained(address at) {
  const handle of = mapping_at(at)->of;
  if (rules_.retain_adds_reference) ++chunks_.at(of).references;
  return of;
}

verdict vmm_model::properties(bool result, handle of) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(is_usable(of), "a handle with a reference left");
  return judged;
}

// -- hipMemExportToShareableHandle, hipMemImportFromShareableHandle ------------------------------

verdict vmm_model::export_handle(bool result, handle of, int type, unsigned long long flags) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(flags == 0, "flags 0");
  judged.require(type == posix, "POSIX descriptor");
  judged.require(is_usable(of) && find(of)->is_shareable, "a chunk that was made shareable");
  judged.require(rules_.has_shareable_handles, "descriptors of chunks", hipErrorNotSupported);
  return judged;
}

void vmm_model::exported(handle of, int number) {
  const chunk& source = chunks_.at(of);
  descriptors_[number] = {source.bytes, source.device, source.memory};
}

verdict vmm_model::import_handle(bool result, std::optional<int> number, int type) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(rules_.imports_any_type || type == posix, "POSIX descriptor");
  judged.require(number && descriptors_.contains(*number), "a descriptor that was exported",
                 rules_.foreign_descriptor);
  judged.require(rules_.has_shareable_handles, "descriptors of chunks", hipErrorNotSupported);
  return judged;
}

void vmm_model::imported(handle made, int number, int type, int current_device) {
  const descriptor& source = descriptors_.at(number);
  const int told_device = rules_.imports_to_current_device ? current_device : source.device;
  chunk shared{source.bytes,
               source.device,
               type == posix,
               true,
               1,
               {hipMemAllocationTypePinned, hipMemLocationTypeDevice, told_device, type}};
  shared.memory = source.memory;
  chunks_.insert({made, shared});
}

}  // namespace hipvmm::test::model

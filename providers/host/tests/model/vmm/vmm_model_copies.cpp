// SPDX-License-Identifier: MIT
// Memory that copies and fills may name besides mappings, and the rules of copies and fills.
#include <algorithm>
#include <cstring>

#include "vmm_model.hpp"

namespace hipvmm::test::model {
namespace {

constexpr int readable = 1;
constexpr int writable = 2;

}  // namespace

verdict vmm_model::allocate(bool result, std::size_t bytes, int device) const {
  verdict judged;
  judged.require(result, "a result");
  judged.require(bytes <= machine_.device_bytes - used_bytes(device), "within the device's memory",
                 hipErrorOutOfMemory);
  return judged;
}

void vmm_model::add_area(address start, std::size_t bytes, area_kind kind, int device) {
  areas_.insert({start, {bytes, kind, device}});
}

verdict vmm_model::free_allocation(address at) const {
  verdict judged;
  judged.require(at == 0 || freed_by(at) != areas_.end(), "what hipMalloc gave, or null");
  return judged;
}

void vmm_model::allocation_freed(address at) {
  const auto found = freed_by(at);
  if (found != areas_.end()) areas_.erase(found);
}

std::map<address, area>::const_iterator vmm_model::freed_by(address at) const {
  const auto found = rules_.frees_inside ? containing(areas_, at) : areas_.find(at);
  return found != areas_.end() && (found->second.kind == area_kind::device ||
                                   (rules_.frees_inside && found->second.kind == area_kind::pinned))
             ? found
             : areas_.end();
}

verdict vmm_model::enable_peer(int user, int owner, unsigned flags) const {
  verdict judged;
  judged.require(flags == 0, "flags 0");
  judged.require(exists(owner) && owner != user && reaches(user, owner),
                 "another device, with a link", hipErrorInvalidDevice);
  judged.require(!peers_.contains({user, owner}), "not enabled already",
                 hipErrorPeerAccessAlreadyEnabled);
  return judged;
}

verdict vmm_model::disable_peer(int user, int owner) const {
  verdict judged;
  judged.require(exists(owner), "an existing device", hipErrorInvalidDevice);
  if (exists(owner) && (user == owner || !reaches(user, owner))) {
    judged.require(false, "a link", rules_.disable_without_link);
  } else {
    judged.require(peers_.contains({user, owner}), "was enabled", hipErrorPeerAccessNotEnabled);
  }
  return judged;
}

// -- ranges --------------------------------------------------------------------------------------

vmm_model::covering vmm_model::cover(address at, std::size_t bytes) const {
  if (mapping_at(at) != nullptr) {
    while (bytes != 0) {
      const auto after = mappings_.upper_bound(at);
      const auto found = std::prev(after);
      if (at - found->first >= found->second.bytes) return {false, true, nullptr};
      const std::size_t here = found->second.bytes - (at - found->first);
      if (here >= bytes) break;
      at += here;
      bytes -= here;
    }
    return {true, true, nullptr};
  }
  const auto after = areas_.upper_bound(at);
  if (after == areas_.begin()) return {false, false, nullptr};
  const auto& [start, in] = *std::prev(after);
  const bool is_whole = at - start < in.bytes && bytes <= in.bytes - (at - start);
  return {is_whole, false, is_whole ? &in : nullptr};
}

std::vector<vmm_model::segment> vmm_model::segments(address at, std::size_t bytes) const {
  std::vector<segment> parts;
  while (bytes != 0) {
    const bool is_mapped = mapping_at(at) != nullptr;
    std::size_t offset = 0;
    std::size_t length = 0;
    model_memory* memory = nullptr;
    if (is_mapped) {
      const auto& [start, found] = *std::prev(mappings_.upper_bound(at));
      offset = at - start;
      length = found.bytes;
      memory = find(found.of)->memory.get();
    } else {
      const auto& [start, found] = *std::prev(areas_.upper_bound(at));
      offset = at - start;
      length = found.bytes;
      memory = found.memory.get();
    }
    const std::size_t here = std::min(length - offset, bytes);
    parts.push_back({at, memory, offset, here});
    at += here;
    bytes -= here;
  }
  return parts;
}

bool vmm_model::has_rights(address at, std::size_t bytes, int device, int wanted) const {
  for (auto each = std::prev(mappings_.upper_bound(at));
       each != mappings_.end() && (each->first <= at || each->first - at < bytes); ++each)
    if ((right_of(each->second, device) & wanted) != wanted) return false;
  return true;
}

bool vmm_model::has_any_rights(address at, std::size_t bytes) const {
  for (int device = 0; device < device_count; ++device)
    for (auto each = mappings_.lower_bound(at); each != mappings_.end() && each->first - at < bytes;
         ++each)
      if (right_of(each->second, device) != hipMemAccessFlagsProtNone) return true;
  return false;
}

bool vmm_model::is_mapped_of_others(address at, std::size_t bytes, int device) const {
  for (auto each = mappings_.upper_bound(at); each != mappings_.begin();) {
    --each;
    if (each->first + each->second.bytes <= at) break;
    if (find(each->second.of)->device != device) return true;
    break;
  }
  for (auto each = mappings_.lower_bound(at); each != mappings_.end() && each->first - at < bytes;
       ++each)
    if (find(each->second.of)->device != device) return true;
  return false;
}

bool vmm_model::is_hip_memory(address at) const {
  if (mapping_at(at) != nullptr) return true;
  const auto reservation = reservations_.upper_bound(at);
  if (reservation != reservations_.begin()) {
    const auto& [start, found] = *std::prev(reservation);
    if (at - start < found.bytes) return true;
  }
  const covering found = cover(at, 1);
  return found.is_whole && found.in->kind != area_kind::pageable;
}

bool vmm_model::is_reserved(address at) const {
  return containing(reservations_, at) != reservations_.end();
}

bool vmm_model::is_open(address at, std::size_t bytes, int device, hipMemAccessFlags wanted) const {
  return !is_reserved(at) || (cover(at, bytes).is_whole && has_rights(at, bytes, device, wanted));
}

bool vmm_model::is_inside_pageable(address at, std::size_t bytes) const {
  if (mapping_at(at) != nullptr) return false;
  const covering found = cover(at, bytes);
  return found.is_whole && found.in->kind == area_kind::pageable;
}

bool vmm_model::is_aliased(address to, address from, std::size_t bytes) const {
  if (!cover(to, bytes).is_whole || !cover(from, bytes).is_whole) return false;
  const auto share = [](const segment& a, const segment& b) {
    return a.memory == b.memory && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  };
  const std::vector<segment> written = segments(to, bytes);
  const std::vector<segment> read = segments(from, bytes);
  for (std::size_t i = 0; i < written.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (share(written[i], written[j])) return true;
  // Bytes that overlap through the same mapping do so as memmove expects.
  return std::any_of(written.begin(), written.end(), [&](const segment& to_part) {
    return std::any_of(read.begin(), read.end(), [&](const segment& from_part) {
      return share(to_part, from_part) &&
             to_part.at - from_part.at != to_part.offset - from_part.offset;
    });
  });
}

// -- copies and fills ----------------------------------------------------------------------------

void vmm_model::require_side(verdict& judged, address at, std::size_t bytes, int device,
                             int wanted) const {
  judged.require(at != 0, "an address");
  const covering found = cover(at, bytes);
  judged.require(found.is_whole, "one allocation, or neighbouring mappings");
  if (!found.is_whole || !found.is_mapped) return;
  judged.require(has_rights(at, bytes, device, wanted), "the right of the device");
  const auto within = std::prev(reservations_.upper_bound(at));
  judged.require(
      rules_.copies_cross_reservations || bytes <= within->second.bytes - (at - within->first),
      "one reservation");
}

verdict vmm_model::copy(address to, address from, std::size_t bytes, int kind, int device,
                        bool is_async) const {
  using unknown_kind = model_rules::unknown_kind;
  const bool is_refused = (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) &&
                          (rules_.unknown_kinds == unknown_kind::refused_in_streams_of_no_bytes_too
                               ? bytes != 0 || is_async
                               : bytes != 0 && rules_.unknown_kinds == unknown_kind::refused);
  verdict judged;
  judged.require(!is_refused, "a known kind", hipErrorInvalidMemcpyDirection);
  if (bytes == 0) return judged;
  require_side(judged, to, bytes, device, writable);
  require_side(judged, from, bytes, device, readable);
  if (!judged.takes_effect() || kind == hipMemcpyDefault) return judged;
  if (!rules_.copy_checks_kind) {
    const bool is_of_host = is_inside_pageable(to, bytes) && is_inside_pageable(from, bytes);
    judged.require(!is_of_host || kind == hipMemcpyHostToHost, "a kind of host memory");
    return judged;
  }
  const auto fits = [&](address at, bool host) {
    const covering found = cover(at, bytes);
    if (found.is_mapped) return !host;
    if (found.in->kind == area_kind::pinned) return true;
    return host == (found.in->kind == area_kind::pageable);
  };
  const bool from_host = kind == hipMemcpyHostToHost || kind == hipMemcpyHostToDevice;
  const bool to_host = kind == hipMemcpyHostToHost || kind == hipMemcpyDeviceToHost;
  judged.require(fits(to, to_host) && fits(from, from_host), "a kind that is what addresses are");
  return judged;
}

verdict vmm_model::peer_copy(address to, int to_device, address from, int from_device,
                             std::size_t bytes) const {
  verdict judged;
  judged.require(exists(to_device) && exists(from_device), "devices exist", hipErrorInvalidDevice);
  if (bytes == 0) return judged;
  const auto open = [&](address at, int device, int wanted) {
    require_side(judged, at, bytes, device, wanted);
    const covering found = cover(at, bytes);
    if (!found.is_whole || found.is_mapped || !rules_.peer_copy_checks_devices) return;
    judged.require(found.in->kind != area_kind::pageable, "not pageable memory");
    judged.require(found.in->kind != area_kind::device || found.in->device == device ||
                       peers_.contains({device, found.in->device}),
                   "its owner, or a device with peer access");
  };
  if (!judged.takes_effect()) return judged;
  open(to, to_device, writable);
  open(from, from_device, readable);
  judged.require(!is_inside_pageable(to, bytes) || !is_inside_pageable(from, bytes),
                 "HIP's memory on one side");
  return judged;
}

std::size_t vmm_model::bytes_filled(std::size_t count, std::size_t width) const {
  return rules_.fill_size_wraps || count <= SIZE_MAX / width ? count * width : SIZE_MAX;
}

verdict vmm_model::fill(address to, std::size_t count, std::size_t width, int device) const {
  verdict judged;
  const std::size_t bytes = bytes_filled(count, width);
  if (bytes == 0) return judged;
  judged.require(to % width == 0, "aligned elements");
  judged.require(rules_.fill_size_wraps || count <= SIZE_MAX / width,
                 "as many bytes as there are addresses");
  require_side(judged, to, bytes, device, writable);
  const covering found = cover(to, bytes);
  if (!found.is_whole || found.is_mapped) return judged;
  judged.require(found.in->kind != area_kind::pageable, "not pageable memory");
  judged.require(!rules_.fills_need_access || found.in->kind != area_kind::device ||
                     found.in->device == device || peers_.contains({device, found.in->device}),
                 "its owner, or a device with peer access");
  return judged;
}

std::vector<std::byte> vmm_model::contents(address from, std::size_t bytes) const {
  std::vector<std::byte> all(bytes);
  std::byte* next = all.data();
  for (const segment& part : segments(from, bytes)) {
    part.memory->read(part.offset, next, part.bytes);
    next += part.bytes;
  }
  return all;
}

void vmm_model::copied(address to, address from, std::size_t bytes) {
  const std::vector<std::byte> all = contents(from, bytes);
  const std::byte* next = all.data();
  for (const segment& part : segments(to, bytes)) {
    part.memory->write(part.offset, next, part.bytes);
    next += part.bytes;
  }
}

void vmm_model::filled(address to, std::size_t count, std::size_t width, std::uint32_t value) {
  std::vector<std::byte> all(count * width);
  for (std::size_t at = 0; at < all.size(); at += width) std::memcpy(&all[at], &value, width);
  const std::byte* next = all.data();
  for (const segment& part : segments(to, all.size())) {
    part.memory->write(part.offset, next, part.bytes);
    next += part.bytes;
  }
}

}  // namespace hipvmm::test::model

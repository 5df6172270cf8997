// SPDX-License-Identifier: MIT
#include "src/memory/device_view.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "src/base/history.hpp"
#include "src/base/knobs.hpp"
#include "src/base/report.hpp"
#include "src/memory/address_space.hpp"
#include "src/memory/svm.hpp"
#include "src/memory/system_events.hpp"
#include "src/signal/signal.hpp"

namespace stand_in {
namespace {

constexpr const char* read_only_page = "write to a page granted read-only";

struct piece {
  char* at = nullptr;
  std::uint64_t bytes = 0;
  std::shared_ptr<backing> keep;
  const char* fault = nullptr;  // why the agent must not use it
};

piece piece_of_mapping(const agent& who, std::uint64_t offset, const mapping& mapped, bool write) {
  piece made;
  made.bytes = mapped.size - offset;
  const auto right = mapped.rights.find(const_cast<agent*>(&who));
  const unsigned allowed = right == mapped.rights.end() ? 0u : unsigned(right->second);
  const unsigned wanted = unsigned(write ? HSA_ACCESS_PERMISSION_WO : HSA_ACCESS_PERMISSION_RO);
  if (allowed == 0) {
    made.fault = "the page is mapped but not granted to the agent";
  } else if ((allowed & wanted) == 0) {
    made.fault = write ? read_only_page : "read of a page granted write-only";
  } else {
    made.at = mapped.memory->at + offset;
    made.keep = mapped.memory;
  }
  return made;
}

piece piece_of_allocation(agent& who, std::uint64_t offset, const allocation& allocated) {
  piece made;
  made.bytes = allocated.memory->bytes - offset;
  if (knobs().allocation_access_checked && !allocated.access.contains(&who)) {
    made.fault = "the agent has no access to the allocation (hsa_amd_agents_allow_access)";
  } else {
    made.at = allocated.memory->at + offset;
    made.keep = allocated.memory;
  }
  return made;
}

// Host memory without an allocation or mapping. `limit` bounds the piece.
piece piece_of_host(const agent& who, std::uint64_t address, std::uint64_t limit) {
  address_space& all = addresses();
  piece made;
  made.at = static_cast<char*>(pointer_to(address));
  made.bytes = limit - address;
  if (const auto at = containing(all.locked, address); at != all.locked.end()) {
    // The driver locks whole pages.
    const std::uint64_t end = round_up(at->first + at->second.size, page_bytes);
    made.bytes = std::min(limit, end) - address;
    return made;
  }
  if (const std::uint64_t end = svm_end(address, limit); end > address) {
    made.bytes = end - address;
    return made;
  }
  if (is_signal_memory(address)) return made;
  for (const auto& each : agents()) {
    if (!each->memory->contains(address)) continue;
    made.at = nullptr;
    made.bytes = std::min(limit, round_up(address + 1, page_bytes)) - address;
    made.fault = "no allocation is there";
    return made;
  }
  if (!who.is_gpu || !knobs().pageable_faults || knobs().xnack) return made;
  // Pages around a locked range are locked with it.
  const auto next = all.locked.lower_bound(address);
  if (next != all.locked.end() && round_down(next->first, page_bytes) <= address) {
    made.bytes = std::min(limit, next->first) - address;
    return made;
  }
  const auto before = containing(all.locked, round_down(address, page_bytes));
  if (before != all.locked.end()) {
    made.bytes = std::min(limit, round_up(address + 1, page_bytes)) - address;
    return made;
  }
  made.at = nullptr;
  made.bytes = std::min(limit, round_up(address + 1, page_bytes)) - address;
  made.fault = "no GPU mapping is there (host memory that is not registered?)";
  return made;
}

piece find_piece(agent& who, std::uint64_t address, std::uint64_t limit, bool write) {
  address_space& all = addresses();
  std::shared_lock guard(all.lock);
  if (const auto at = containing(all.mappings, address); at != all.mappings.end()) {
    return piece_of_mapping(who, address - at->first, at->second, write);
  }
  // A page beyond the size that was asked for still belongs to the allocation.
  auto above = all.allocations.upper_bound(address);
  if (above != all.allocations.begin()) {
    const auto at = std::prev(above);
    if (address - at->first < at->second.memory->bytes) {
      return piece_of_allocation(who, address - at->first, at->second);
    }
  }
  const auto reserved = containing(all.reservations, address);
  if (reserved != all.reservations.end() && !reserved->second.unregistered) {
    piece made;
    made.bytes = reserved->second.size - (address - reserved->first);
    const auto next = all.mappings.upper_bound(address);
    if (next != all.mappings.end()) made.bytes = std::min(made.bytes, next->first - address);
    made.fault = "nothing is mapped there";
    return made;
  }
  // Host memory ends at the start of a reservation or an allocation.
  std::uint64_t end = limit;
  if (above != all.allocations.end()) end = std::min(end, above->first);
  const auto next = all.reservations.upper_bound(address);
  if (next != all.reservations.end()) end = std::min(end, next->first);
  return piece_of_host(who, address, end);
}

void report_fault(const operation& what, const char* how, const char* why, std::uint64_t address,
                  std::uint64_t begin, std::uint64_t bytes) {
  std::string now_there;
  {
    std::shared_lock guard(addresses().lock);
    now_there = describe_address(address);
  }
  const std::string before = describe_history(address, 3);
  const std::uint32_t reason = why == read_only_page ? HSA_AMD_MEMORY_FAULT_READ_ONLY
                                                     : HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT;
  report(text("memory access fault at 0x%llx: %s. Operation: %s; it %s 0x%llx of %llu bytes, the "
              "fault is %llu bytes into them. Now there: %s. Before: %s.",
              wide(address), why, describe(what).c_str(), how, wide(begin), wide(bytes),
              wide(address - begin), now_there.c_str(),
              before.empty() ? "nothing ended here" : before.c_str()),
         [&] { return offer_fault(*what.who, address, reason); });
}

}  // namespace

void device_view::for_each_piece(std::uint64_t address, std::uint64_t bytes, access how,
                                 const visitor& each) const {
  const bool write = how == access::write;
  bool reported = false;
  for (std::uint64_t at = address; at - address < bytes;) {
    const std::uint64_t end = address + bytes;
    piece found = find_piece(*what_.who, at, end, write);
    const std::uint64_t here = std::min(found.bytes, end - at);
    if (found.fault != nullptr) {
      if (!reported) {
        report_fault(what_, write ? "writes" : "reads", found.fault, at, address, bytes);
      }
      reported = true;
      each(nullptr, here);
    } else {
      each(found.at, here);
    }
    at += here;
  }
}

void device_view::read(void* to, std::uint64_t from, std::uint64_t bytes) const {
  auto* into = static_cast<char*>(to);
  for_each_piece(from, bytes, access::read, [&](const char* at, std::uint64_t here) {
    if (at != nullptr) {
      std::memcpy(into, at, here);
    } else {
      std::memset(into, 0, here);
    }
    into += here;
  });
}

void device_view::write(std::uint64_t to, const void* from, std::uint64_t bytes) const {
  const auto* source = static_cast<const char*>(from);
  for_each_piece(to, bytes, access::write, [&](char* at, std::uint64_t here) {
    if (at != nullptr) std::memcpy(at, source, here);
    source += here;
  });
}

void device_view::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) const {
  for_each_piece(from, bytes, access::read, [&](const char* at, std::uint64_t here) {
    for_each_piece(to, here, access::write, [&](char* into, std::uint64_t part) {
      if (into != nullptr && at != nullptr) std::memmove(into, at, part);
      if (at != nullptr) at += part;
    });
    to += here;
  });
}

void device_view::fill(std::uint64_t to, std::uint64_t bytes, const void* pattern,
                       std::uint64_t pattern_bytes) const {
  const auto* unit = static_cast<const char*>(pattern);
  bool same = true;
  for (std::uint64_t i = 1; i < pattern_bytes; ++i) same = same && unit[i] == unit[0];
  std::uint64_t done = 0;
  for_each_piece(to, bytes, access::write, [&](char* at, std::uint64_t here) {
    if (at != nullptr && same) std::memset(at, unit[0], here);
    if (at != nullptr && !same) {
      for (std::uint64_t i = 0; i < here; ++i) at[i] = unit[(done + i) % pattern_bytes];
    }
    done += here;
  });
}

}  // namespace stand_in

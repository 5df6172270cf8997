// SPDX-License-Identifier: MIT
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/hip_compat.hpp"
#include "model_memory.hpp"
#include "model_rules.hpp"

namespace hipvmm::test::model {

inline constexpr int posix = hipMemHandleTypePosixFileDescriptor;

using address = std::uintptr_t;
using handle = hipMemGenericAllocationHandle_t;

inline constexpr int device_count = 4;
inline constexpr int host_location = hip_compat::host_location;
inline constexpr int host_node_location = hip_compat::host_node_location;

/// The machine that the environment describes. Devices 0 and 1 are linked, and 1 and 2.
struct machine {
  std::size_t granularity;
  std::size_t device_bytes;
  std::size_t address_space;
};

[[nodiscard]] bool exists(int device);
/// Whether `user` may be given a right to memory of `owner`.
[[nodiscard]] bool reaches(int user, int owner);

/// The entry of `entries` that holds `at`, or their end; each has a start and `bytes`.
template <class Map>
[[nodiscard]] auto containing(Map& entries, address at) {
  auto after = entries.upper_bound(at);
  if (after == entries.begin()) return entries.end();
  --after;
  return at - after->first < after->second.bytes ? after : entries.end();
}

/// The rules that a call breaks. No document orders the checks, so if several are broken, the code
/// of any of them is right; if none is, the call succeeds.
class verdict {
 public:
  void require(bool holds, const char* rule, hipError_t otherwise = hipErrorInvalidValue);
  /// A refusal that is reported as success.
  void hide_failure();
  [[nodiscard]] bool allows(hipError_t given) const;
  [[nodiscard]] bool takes_effect() const { return broken_.empty(); }
  [[nodiscard]] std::string text() const;

 private:
  struct broken_rule {
    const char* rule;
    hipError_t code;
  };
  std::vector<broken_rule> broken_;
};

struct access_entry {
  int location_type;
  int device;
  int flags;
};

/// Arguments of hipMemCreate as a careless program may give them.
struct create_arguments {
  bool result;
  bool properties;
  std::size_t bytes;
  int type;
  int location_type;
  int device;
  int handle_type;
  unsigned long long flags;
};

struct told_properties {
  int type;
  int location_type;
  int device;
  int handle_type;
};

struct chunk {
  std::size_t bytes;
  int device;  ///< its links count; means nothing for host memory
  bool is_shareable;
  bool is_imported;  ///< charged to no budget here
  int references;
  told_properties told;
  int mappings = 0;
  std::set<address> held_by = {};  ///< reservations that keep it charged
  std::shared_ptr<model_memory> memory = std::make_shared<model_memory>();

  [[nodiscard]] bool is_on_host() const { return told.location_type != hipMemLocationTypeDevice; }
  [[nodiscard]] bool is_alive() const { return references > 0 || mappings > 0 || !held_by.empty(); }
};

struct mapping {
  std::size_t bytes;
  handle of;
  std::array<int, device_count> rights = {};   ///< hipMemAccessFlags of each device
  int host_right = hipMemAccessFlagsProtNone;  ///< granted to it by name
};

struct reservation_state {
  std::size_t bytes;
  bool is_busy = false;  ///< for ever: only with unmap_of_several_keeps_reservation
  bool is_lost = false;  ///< freed while in use: its addresses stay taken, and nobody can free it
};

/// Memory that is no mapping: of hipMalloc, hipHostMalloc, or nobody's.
enum class area_kind { device, pinned, pageable };
struct area {
  std::size_t bytes;
  area_kind kind;
  int device;
  std::shared_ptr<model_memory> memory = std::make_shared<model_memory>();
};

struct descriptor {
  std::size_t bytes;
  int device;
  std::shared_ptr<model_memory> memory;
};

/// Objects of each kind as the control header counts them.
struct object_counts {
  std::size_t handles, reservations, mappings, allocations, descriptors;
  bool operator==(const object_counts&) const = default;
};

/// HIP's virtual memory management as providers/host/docs/rules*.md describe it. A verdict answers
/// a question and changes nothing; the caller reports the effect of a call afterwards, with the
/// values it gave.
class vmm_model {
 public:
  vmm_model(const machine& of, const model_rules& rules) : machine_{of}, rules_{rules} {}

  // Virtual memory, in the order of providers/host/docs/rules_virtual_memory.md.
  [[nodiscard]] verdict reserve(bool result, std::size_t bytes, std::size_t alignment,
                                unsigned long long flags, address wish) const;
  void reserved(address start, std::size_t bytes);
  [[nodiscard]] verdict free_addresses(address start, std::size_t bytes) const;
  void addresses_freed(address start);
  /// The effect on addresses in use of a free that is told as success.
  void addresses_lost(address start) { reservations_.at(start).is_lost = true; }
  /// Whether `start` is that of a reservation that has not been freed.
  [[nodiscard]] bool is_reservation(address start) const;
  /// Whether addresses are taken for ever afterwards.
  [[nodiscard]] bool free_loses(address start) const;

  [[nodiscard]] verdict create(const create_arguments& wanted, int current_device) const;
  void created(handle made, const create_arguments& wanted, int current_device);
  [[nodiscard]] verdict release(handle of) const;
  void released(handle of);

  [[nodiscard]] verdict map(address at, std::size_t bytes, std::size_t offset, handle of,
                            unsigned long long flags) const;
  void mapped(address at, std::size_t bytes, handle of);
  [[nodiscard]] verdict unmap(address at, std::size_t bytes) const;
  void unmapped(address at, std::size_t bytes);
  /// Whether the reservation stays busy for ever afterwards.
  [[nodiscard]] bool unmap_loses(address at, std::size_t bytes) const;

  [[nodiscard]] verdict set_access(address at, std::size_t bytes, const access_entry* entries,
                                   std::size_t count) const;
  /// Applies the effect of a call with these arguments, which may be a part if it is refused.
  void access_set(address at, std::size_t bytes, const access_entry* entries, std::size_t count);
  [[nodiscard]] verdict get_access(bool result, const access_entry* location, address at) const;

  [[nodiscard]] verdict retain(bool result, address at) const;
  handle retained(address at);
  [[nodiscard]] verdict properties(bool result, handle of) const;

  [[nodiscard]] verdict export_handle(bool result, handle of, int type,
                                      unsigned long long flags) const;
  void exported(handle of, int number);
  [[nodiscard]] verdict import_handle(bool result, std::optional<int> number, int type) const;
  void imported(handle made, int number, int type, int current_device);
  void closed(int number) { descriptors_.erase(number); }

  // Memory and devices, as far as copies and fills look at them.
  [[nodiscard]] verdict allocate(bool result, std::size_t bytes, int device) const;
  void add_area(address start, std::size_t bytes, area_kind kind, int device);
  [[nodiscard]] verdict free_allocation(address at) const;
  void allocation_freed(address at);
  [[nodiscard]] verdict enable_peer(int user, int owner, unsigned flags) const;
  void peer_enabled(int user, int owner) { peers_.insert({user, owner}); }
  [[nodiscard]] verdict disable_peer(int user, int owner) const;
  void peer_disabled(int user, int owner) { peers_.erase({user, owner}); }

  // Copies and fills, in vmm_model_copies.cpp.
  [[nodiscard]] verdict copy(address to, address from, std::size_t bytes, int kind, int device,
                             bool is_async) const;
  [[nodiscard]] verdict peer_copy(address to, int to_device, address from, int from_device,
                                  std::size_t bytes) const;
  [[nodiscard]] verdict fill(address to, std::size_t count, std::size_t width, int device) const;
  /// Of so many elements; all there are if the product is too large.
  [[nodiscard]] std::size_t bytes_filled(std::size_t count, std::size_t width) const;
  void copied(address to, address from, std::size_t bytes);
  void filled(address to, std::size_t count, std::size_t width, std::uint32_t value);
  [[nodiscard]] std::vector<std::byte> contents(address from, std::size_t bytes) const;
  /// Whether a copy's result depends on how it is done: ranges that share bytes of a chunk through
  /// different addresses.
  [[nodiscard]] bool is_aliased(address to, address from, std::size_t bytes) const;
  /// Whether the byte is in memory or addresses that HIP knows.
  [[nodiscard]] bool is_hip_memory(address at) const;
  [[nodiscard]] bool is_inside_pageable(address at, std::size_t bytes) const;
  [[nodiscard]] bool is_reserved(address at) const;
  /// Whether the device has the right to all of a range, if that is reserved.
  [[nodiscard]] bool is_open(address at, std::size_t bytes, int device,
                             hipMemAccessFlags wanted) const;
  /// Whether mapped memory of the range is of another device than `device`.
  [[nodiscard]] bool is_mapped_of_others(address at, std::size_t bytes, int device) const;
  /// Whether any device has rights to mapped memory of the range.
  [[nodiscard]] bool has_any_rights(address at, std::size_t bytes) const;

  // Facts that can be asked at any time.
  [[nodiscard]] std::size_t used_bytes(int device) const;
  [[nodiscard]] object_counts counts() const;
  [[nodiscard]] int right_of(const mapping& of, int device) const;
  [[nodiscard]] const mapping* mapping_at(address at) const;
  [[nodiscard]] const area* area_at(address at) const;
  [[nodiscard]] const chunk* find(handle of) const;
  [[nodiscard]] bool is_usable(handle of) const;
  [[nodiscard]] bool overlaps_anything(address start, std::size_t bytes) const;
  [[nodiscard]] const std::map<address, mapping>& mappings() const { return mappings_; }
  [[nodiscard]] const std::map<address, reservation_state>& reservations() const {
    return reservations_;
  }
  [[nodiscard]] const std::map<address, area>& areas() const { return areas_; }
  [[nodiscard]] const std::map<handle, chunk>& chunks() const { return chunks_; }
  [[nodiscard]] const machine& of() const { return machine_; }
  [[nodiscard]] const model_rules& rules() const { return rules_; }

 private:
  /// A part of a range that lies in one chunk or area.
  struct segment {
    address at;
    model_memory* memory;
    std::size_t offset;
    std::size_t bytes;
  };
  struct covering {
    bool is_whole;  ///< every byte is in one area, or in neighbouring mappings
    bool is_mapped;
    const area* in;  ///< null when mapped
  };

  [[nodiscard]] bool whole_granules(std::size_t bytes) const;
  [[nodiscard]] bool are_whole_mappings(address at, std::size_t bytes) const;
  /// Of one reservation, and no mapping in part.
  [[nodiscard]] bool holds_whole_mappings(address at, std::size_t bytes) const;
  void unmapped_with_holes(address at, std::size_t bytes);
  [[nodiscard]] std::size_t reach_of_access(address at, std::size_t bytes) const;
  [[nodiscard]] bool has_mapping_inside(address start, std::size_t bytes) const;
  [[nodiscard]] bool is_sum_from_first(address at, std::size_t bytes) const;
  [[nodiscard]] bool is_host_place(int location_type, int id) const;
  [[nodiscard]] bool is_host_entry(const access_entry& entry) const;
  [[nodiscard]] bool entry_is_known(const access_entry& entry) const;
  [[nodiscard]] bool entry_is_for_host_alone(address at, std::size_t bytes,
                                             const access_entry& entry) const;
  [[nodiscard]] bool entry_gains_without_link(address at, std::size_t bytes,
                                              const access_entry& entry) const;
  [[nodiscard]] int place_of(const create_arguments& wanted, int current_device) const;
  void forget_if_dead(handle of);
  [[nodiscard]] std::map<address, area>::const_iterator freed_by(address at) const;

  [[nodiscard]] covering cover(address at, std::size_t bytes) const;
  [[nodiscard]] std::vector<segment> segments(address at, std::size_t bytes) const;
  [[nodiscard]] bool has_rights(address at, std::size_t bytes, int device, int wanted) const;
  void require_side(verdict& judged, address at, std::size_t bytes, int device, int wanted) const;

  machine machine_;
  const model_rules& rules_;
  std::map<address, reservation_state> reservations_;
  std::map<address, mapping> mappings_;
  std::map<handle, chunk> chunks_;
  std::map<int, descriptor> descriptors_;
  std::map<address, area> areas_;
  std::set<std::pair<int, int>> peers_;
};

}  // namespace hipvmm::test::model

// SPDX-License-Identifier: MIT
// Every range of addresses that agents may use, and every handle of physical memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include <hsa/hsa_ext_amd.h>

#include "src/base/text.hpp"
#include "src/memory/agents.hpp"

namespace stand_in {

/// Bytes that engines read and write at `at`. The last owner frees them, so that work that has
/// begun ends on existing memory.
struct backing {
  agent* owner = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
  char* at = nullptr;
  int file = -1;
  bool foreign = false;   // of another process: mapped and opened by this object
  bool exported = false;  // another process may use it, so its pages stay
  ~backing();
};
std::shared_ptr<backing> allocate_backing(agent& owner, std::uint64_t bytes);
/// Maps a range of another process's file, of which it takes a descriptor of its own.
std::shared_ptr<backing> import_backing(agent& owner, int file, std::uint64_t offset,
                                        std::uint64_t bytes);

struct allocation {
  std::uint64_t size = 0;  // as asked for
  pool* from = nullptr;
  std::shared_ptr<backing> memory;
  std::set<agent*> access;
  void* user_data = nullptr;
  bool imported = false;
};
struct locked_range {
  std::uint64_t size = 0;
  int references = 0;
};
struct reservation {
  std::uint64_t size = 0;
  int use_count = 0;
  bool unregistered = false;  // plain host memory: HSA_AMD_VMEM_ADDRESS_NO_REGISTER
  std::vector<std::shared_ptr<backing>> kept = {};  // of ended mappings: MEMORY_RETURN
};
struct memory_handle {
  std::shared_ptr<backing> memory;
  hsa_amd_memory_type_t type = MEMORY_TYPE_NONE;
  pool* from = nullptr;
  int ref_count = 1;
  int use_count = 0;
};
struct mapping {
  std::uint64_t size = 0;
  memory_handle* of = nullptr;
  reservation* in = nullptr;
  std::shared_ptr<backing> memory;
  std::map<agent*, hsa_access_permission_t> rights;
};

/// ROCr's memory_lock_ and the maps that it guards.
struct address_space {
  std::shared_mutex lock;
  std::map<std::uint64_t, allocation> allocations;
  std::map<std::uint64_t, locked_range> locked;
  std::map<std::uint64_t, reservation> reservations;
  std::map<std::uint64_t, mapping> mappings;
  std::map<std::uint64_t, std::unique_ptr<memory_handle>> handles;  // by own address
};
address_space& addresses();

/// The entry whose range has `address`, or end().
template <class Map>
auto containing(Map& map, std::uint64_t address) {
  auto at = map.upper_bound(address);
  if (at == map.begin()) return map.end();
  --at;
  return address - at->first < at->second.size ? at : map.end();
}

/// The reservation around the whole range, or nullptr.
reservation* reservation_of(std::uint64_t address, std::uint64_t bytes);

/// Pre: the lock is held. find_handle() returns nullptr for an unknown handle.
memory_handle& add_handle(memory_handle made);
memory_handle* find_handle(hsa_amd_vmem_alloc_handle_t handle);

/// Makes the host's view of a mapping agree with its rights. Pre: the lock is held.
void update_host_view(std::uint64_t address, const mapping& mapped);

/// Pre: the lock is held.
std::string describe_address(std::uint64_t address);

}  // namespace stand_in

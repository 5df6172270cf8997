// SPDX-License-Identifier: MIT
#include "mr/pool/region_backend.hpp"

#include <limits>
#include <memory>
#include <string>

#include <hipvmm/vmm/capability.hpp>
#include "core/check.hpp"
#include "mr/pool/slab_backend.hpp"

namespace hipvmm::mr::pool {
namespace {

// Blocks are known by their addresses, which neither copies nor renewal may change.
region_options options_for(handle_type shareable, chunk_cache& lifted) {
  region_options options;
  options.shareable = shareable;
  options.cache = &lifted;
  options.when_empty = emptied::keeps_addresses;
  options.fallback = without_vmm::refuse;
  return options;
}

}  // namespace

region_backend::region_backend(device_ref device, std::size_t address_bytes, handle_type shareable)
    : detached_{std::numeric_limits<std::size_t>::max()},
      region_{device, address_bytes, options_for(shareable, detached_)},
      address_bytes_{region_.max_bytes()},
      has_equal_chunks_{capability_of(device).needs(quirk::access_from_base)} {}

std::string region_backend::explain() const {
  return std::string{
             "chunks of virtual memory in one range of addresses; chunks that work under "
             "way uses "} +
         (has_aliases() ? "move without a wait" : "move when it has passed");
}

std::unique_ptr<device_backend> device_backend::make(device_ref device, std::size_t address_bytes,
                                                     handle_type shareable, without_vmm fallback) {
  if (fallback == without_vmm::use_hip_malloc &&
      capability_of(device).path() == memory_path::fallback)
    return std::make_unique<slab_backend>(device, address_bytes, shareable);
  return std::make_unique<region_backend>(device, address_bytes, shareable);
}

void region_backend::create(std::size_t offset, std::size_t bytes) {
  region_.commit(offset, bytes);
}

void region_backend::lift(std::size_t offset, std::size_t bytes) {
  region_.decommit(offset, bytes);
}

void region_backend::alias(std::size_t from, std::size_t to, std::size_t) {
  region_.move_chunk(from, to);
}

bool region_backend::end_alias(std::size_t from, std::size_t) noexcept {
  bool ended = false;
  detail::report_exceptions([&] {
    region_.end_move(from);
    ended = true;
  });
  return ended;
}

}  // namespace hipvmm::mr::pool

// SPDX-License-Identifier: MIT
#include "region/chunks/detached_chunk.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hipvmm/region/region.hpp>
#include "region/mapped_region.hpp"

namespace hipvmm::detail {

detached_chunk detach_chunk(region& from, std::size_t offset) {
  mapped_region& self = from.live();
  self.drop_prepared();
  const auto found = self.backings.find(offset);
  if (found == self.backings.end())
    throw std::invalid_argument{"no chunk of the region begins at offset " +
                                std::to_string(offset)};
  self.holds_memory = true;
  self.committed -= found->second.bytes();
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.backings.erase(found);
  return detached;
}

detached_chunk detach_left_behind(region& from, std::size_t offset) {
  mapped_region& self = from.live();
  const auto found = self.left_behind.find(offset);
  if (found == self.left_behind.end())
    throw std::invalid_argument{"no chunk that moved is still mapped at offset " +
                                std::to_string(offset)};
  self.holds_memory = true;
  detached_chunk detached{self.addresses, std::move(found->second)};
  self.left_behind.erase(found);
  return detached;
}

void move_chunks(region& in, const std::vector<std::size_t>& from, std::size_t to) {
  in.awake("region::move_chunk").move_chunks(from, to);
}

refused_mappings take_refused(region& from, std::size_t offset, std::size_t bytes) noexcept {
  const auto& addresses = from.live().addresses;
  return {addresses,
          addresses->refused().take(static_cast<char*>(addresses->base()) + offset, bytes)};
}

}  // namespace hipvmm::detail
